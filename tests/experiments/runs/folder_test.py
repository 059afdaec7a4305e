import errno
import fcntl
import json
import os
import re
from unittest import mock

import pytest

from tests.experiments.runs.example_configurations import build
from tff_fair.experiments import RunSpec, errors
from tff_fair.experiments.runs import (
  checksums,
  configuration,
  folder as run_folder,
  integrity,
)
from tff_fair.files import atomic

CONFIGURATION: configuration.Configuration = build(RunSpec(batch_size=16))
NO_LOCKS = mock.Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))


def changed(group, **values):
  return {**CONFIGURATION, group: {**CONFIGURATION[group], **values}}


@pytest.fixture
def path(tmp_path):
  return tmp_path / "outputs" / "run"


def interrupted_run(path, config=CONFIGURATION):
  with run_folder.take_folder([path], config) as folder:
    (folder.checkpoints / "program_state_3").mkdir(parents=True)
  return folder


def everything_in(path):
  return sorted(p for p in path.rglob("*"))


def refuse(
  path,
  match,
  config=CONFIGURATION,
  error=errors.FolderTakenError,
  lengthens=False,
):
  """Checks that a run is refused the folder, with a message like `match`."""
  with (
    pytest.raises(error, match=match),
    run_folder.take_folder([path], config, lengthens=lengthens),
  ):
    pass


def test_a_new_folder_holds_the_configuration(path):
  with run_folder.take_folder([path], CONFIGURATION) as folder:
    assert json.loads(folder.config.read_text()) == CONFIGURATION
    assert everything_in(path) == [folder.config]


def test_an_interrupted_run_goes_on(path):
  before = interrupted_run(path).config.read_text()
  with run_folder.take_folder([path], CONFIGURATION) as folder:
    assert folder.is_saved
  assert folder.config.read_text() == before


def test_a_run_killed_as_it_began_starts_again(path):
  path.mkdir(parents=True)
  (path / "config.json").touch()
  with run_folder.take_folder([path], CONFIGURATION) as folder:
    assert json.loads(folder.config.read_text()) == CONFIGURATION


def test_what_does_not_decide_the_results_may_change(path):
  interrupted_run(path)
  other = changed("command", line="python -m binaries.train")
  with run_folder.take_folder([path], other) as folder:
    assert folder.is_saved


def test_another_run_is_left_alone(path):
  folder = interrupted_run(path)
  before = folder.config.read_text()
  found = re.escape("batch_size=16 (here 32), seed=0 (here 1);")
  other = changed("resolved", batch_size=32, seed=1)
  refuse(path, f"^{path}: .*{found}", other)
  assert folder.config.read_text() == before
  assert folder.is_saved


LONGER = changed("resolved", total_rounds=9)
TUNED = changed(
  "resolved", total_rounds=5, finetune_epochs=2, finetune_learning_rate=0.3
)


@pytest.mark.parametrize(
  ("has_locks", "further", "is_finished"),
  [
    *((has_locks, LONGER, end) for has_locks in (1, 0) for end in (1, 0)),
    (True, TUNED, False),
  ],
)
def test_a_run_may_go_further(
  path, monkeypatch, has_locks, further, is_finished
):
  if not has_locks:
    monkeypatch.setattr(fcntl, "flock", NO_LOCKS)
  folder = interrupted_run(path, changed("resolved", total_rounds=5))
  if is_finished:
    for file in folder.final_files:
      file.write_text("{}")
  folder.metrics.write_text("round\n")
  checksums.write(path, [folder.config, folder.metrics])
  folder.check_usable(further["resolved"])
  with run_folder.take_folder([path], further, lengthens=True):
    assert json.loads(folder.config.read_text()) == further
    assert integrity.changes(folder, verify=True) == {}
    assert not any(file.exists() for file in folder.final_files)
    assert folder.is_saved
    assert folder.is_in_use
    refuse(path, "another program", further)
  assert not folder.is_in_use


def test_a_finished_run_stays_as_it_is_until_it_is_fine_tuned(path):
  folder = interrupted_run(path, changed("resolved", total_rounds=5))
  for file in folder.final_files:
    file.write_text("{}")

  def content():
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}

  before = content()
  with run_folder.take_folder([path], TUNED, lengthens=True) as taken:
    assert taken.next_configuration == TUNED
    assert folder.is_in_use
    refuse(path, "another program", TUNED, lengthens=True)
  assert content() == before


@pytest.mark.parametrize(
  ("present", "lengthens", "expected"),
  [
    (LONGER, False, "holds a finished run"),
    (changed("resolved", total_rounds=5), True, "larger total_rounds"),
    (changed("resolved", total_rounds=4), True, "larger total_rounds"),
    (TUNED, False, "holds a finished run"),
    (
      changed("resolved", total_rounds=4, finetune_epochs=2),
      True,
      r"total_rounds=5 \(here 4\)",
    ),
    (changed("resolved", total_rounds=9, seed=1), True, r"seed=0 \(here 1\)"),
    (
      changed("resolved", total_rounds=9, rounds_per_evaluation=3),
      True,
      r"rounds_per_evaluation=1 \(here 3\)",
    ),
  ],
)
def test_a_finished_run_that_cannot_go_on_is_left_alone(
  path, present, lengthens, expected
):
  folder = interrupted_run(path, changed("resolved", total_rounds=5))
  folder.summary.write_text("{}")
  before = folder.config.read_text()
  refuse(path, expected, present, lengthens=lengthens)
  assert folder.config.read_text() == before
  assert folder.is_finished


def test_a_kill_while_a_run_becomes_longer_leaves_a_run(path, monkeypatch):
  folder = interrupted_run(path, changed("resolved", total_rounds=5))
  folder.summary.write_text("{}")
  for step in range(3):
    with monkeypatch.context() as patched:
      sync = mock.Mock(side_effect=[*[None] * step, RuntimeError("killed")])
      patched.setattr(atomic, "sync", sync)
      with (
        pytest.raises(RuntimeError),
        run_folder.take_folder([path], LONGER, lengthens=True),
      ):
        pass
    assert folder.configuration()["resolved"]["total_rounds"] == 5
    assert not folder.is_finished
  with run_folder.take_folder([path], LONGER, lengthens=True):
    assert json.loads(folder.config.read_text()) == LONGER


def test_a_folder_of_another_format_is_left_alone(path):
  interrupted_run(path, {**CONFIGURATION, "format": 2})
  refuse(path, "format .*2")


@pytest.mark.parametrize("name", ["summary", "metrics", "clients"])
def test_what_is_not_of_an_interrupted_run_is_not_written_over(path, name):
  path.mkdir(parents=True)
  file = getattr(run_folder.RunFolder(path), name)
  file.write_text("mine")
  refuse(path, f"^{path}: ")
  assert everything_in(path) == [file]
  assert file.read_text() == "mine"


@pytest.mark.parametrize(
  "text", [b"{", b"[1]", b'{"spec": 3}', b"null", b"\xff", b"\0\0"]
)
def test_a_config_that_is_none_is_left_alone(path, text):
  path.mkdir(parents=True)
  (path / "config.json").write_bytes(text)
  refuse(path, r"config\.json")
  assert (path / "config.json").read_bytes() == text


@pytest.mark.parametrize(
  "name", ["evaluations.csv", "config.json", "checkpoints/program_state_3/a"]
)
def test_a_run_with_a_pipe_is_left_alone(path, name):
  interrupted_run(path)
  (path / name).unlink(missing_ok=True)
  os.mkfifo(path / name)
  before = everything_in(path)
  with pytest.raises(errors.RunError, match=f"{path}: {name}"):
    run_folder.RunFolder(path).check_usable()
  refuse(path, name, error=errors.RunError)
  assert everything_in(path) == before


@pytest.mark.parametrize("below", ["fedavg", "digits/fedavg"])
def test_a_folder_of_other_runs_is_left_alone(path, below):
  path.mkdir(parents=True)
  (path / "notes").mkdir()
  # A config.json that no run has written does not count as a run.
  for text in ("", "[1, 2]", "{}", "no JSON"):
    (path / "notes" / "config.json").write_text(text)
    run_folder.RunFolder(path).check_usable()
  interrupted_run(path / below)
  before = everything_in(path)
  told = f"holds other runs, such as {path / below}.* new folder, .*{path}/NAME"
  with pytest.raises(errors.FolderTakenError, match=f"^{path}: {told}"):
    run_folder.RunFolder(path).check_usable()
  refuse(path, told)
  assert everything_in(path) == before
  with run_folder.take_folder([path / "other"], CONFIGURATION):
    pass


def test_the_first_folder_that_is_free_is_taken(path):
  folder = interrupted_run(path)
  folder.summary.write_text("{}")
  second, third = path.with_name("run-2"), path.with_name("run-3")
  interrupted_run(second, changed("resolved", seed=1))
  with run_folder.take_folder([path, second, third], CONFIGURATION) as taken:
    assert taken.path == third
    refuse(third, "another program")  # It is in use now.
  with run_folder.take_folder([path, third], CONFIGURATION) as taken:
    assert taken.path == third


def test_a_file_system_without_locks_keeps_others_out_too(path, monkeypatch):
  monkeypatch.setattr(fcntl, "flock", NO_LOCKS)
  with run_folder.take_folder([path], CONFIGURATION) as folder:
    assert folder.is_in_use
    refuse(path, "another program")
    assert folder.config.exists()
  assert not folder.is_in_use
  assert everything_in(path) == [folder.config]
  folder.config.unlink()
  path.rmdir()
  path.parent.rmdir()
  with (
    pytest.raises(RuntimeError),
    run_folder.take_folder([path], CONFIGURATION),
  ):
    raise RuntimeError
  assert not path.parent.exists()  # Nothing of the claim is left.


def fail_in(path, error, *, saved):
  def fail():
    with run_folder.take_folder([path], CONFIGURATION) as folder:
      for file in folder.round_tables:
        file.write_text("round\n")
      (folder.tensorboard / "train").mkdir(parents=True)
      # Files that were being written at the failure.
      (folder.checkpoints / "program_state_1_temp1234").mkdir(parents=True)
      (folder.path / "metrics.csv_temp1234").touch()
      if saved:
        (folder.checkpoints / "program_state_1").mkdir()
      raise error

  with pytest.raises(type(error)):
    fail()
  return run_folder.RunFolder(path)


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()])
def test_a_failure_before_anything_is_saved_leaves_nothing(path, error):
  fail_in(path, error, saved=False)
  assert not path.parent.exists()


def test_a_failure_that_is_killed_leaves_what_can_start_again(
  path, monkeypatch
):
  removed = []
  monkeypatch.setattr(run_folder, "_remove", removed.extend)
  folder = fail_in(path, RuntimeError(), saved=False)
  assert set(removed) >= set(folder.files)
  assert removed[-1] == folder.config


def test_a_failure_later_leaves_what_was_saved(path):
  folder = fail_in(path, RuntimeError(), saved=True)
  assert folder.is_saved
  assert all(file.exists() for file in folder.round_tables)


def test_a_folder_that_was_there_stays_with_files_of_others(path):
  path.mkdir(parents=True)
  log = path / "log.txt"
  log.write_text("written by the shell")
  fail_in(path, RuntimeError(), saved=False)
  assert everything_in(path.parent) == [path, log]


@pytest.mark.parametrize(
  "name", ["file", "file/run", "/dev/null/run", "long" * 100]
)
def test_a_folder_that_cannot_be_is_a_usage_error(tmp_path, name):
  (tmp_path / "file").write_text("mine")
  path = tmp_path / name
  refuse(path, f"^{path}: ", error=errors.RunError)
  assert everything_in(tmp_path) == [tmp_path / "file"]


def test_leftovers_of_a_kill_are_removed(path):
  folder = interrupted_run(path)
  kept = everything_in(path)
  (folder.checkpoints / "program_state_6_temp1234").mkdir()
  (path / "metrics.csv_temp9876").write_text("round\n")
  staging = path / f"{atomic.STAGING}abc"
  staging.mkdir()
  (staging / folder.label_correction.name).write_bytes(b"half")
  folder.remove_leftovers()
  assert everything_in(path) == kept


def test_a_run_that_goes_on_to_its_end_is_pruned_no_more(tmp_path):
  folder = run_folder.RunFolder(tmp_path)
  folder.mark_pruned()
  assert folder.is_pruned
  folder.summary.write_text("{}")
  assert not folder.is_pruned
