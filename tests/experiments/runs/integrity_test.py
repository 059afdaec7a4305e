"""Tests of reports about files that changed after their run wrote them."""

import shutil

import numpy as np
import pytest

from binaries import compare, export
from tests.binaries import in_process
from tests.experiments import report_runs
from tff_fair import experiments
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import (
  checkpoints,
  checksums,
  discovery,
  integrity,
  tape_files,
)
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.files import atomic, parsing

pytestmark = pytest.mark.program


def make(path, *, seed, is_finished=True):
  """Writes a run of six rounds with a state, and its checksums."""
  folder = RunFolder(path)
  report_runs.make(
    path, seed=seed, num_rounds=6, num_clients=5, is_finished=is_finished
  )
  state = folder.checkpoints / "program_state_6" / "variables"
  state.mkdir(parents=True)
  (state / "data").write_bytes(bytes([seed]) * 99)
  folder.curves_plot.write_bytes(b"a plot")
  if is_finished:
    finish(folder)
  else:
    checkpoints.write_checksums(state.parent)
    integrity.write_checksums(folder)
  return folder


def finish(folder):
  """Ends a run as training does."""
  staged = RunFolder(folder.path / "staged")
  staged.path.mkdir()
  folder.summary.rename(staged.summary)
  integrity.write_checksums(folder, staged=staged)
  for file in (staged.checksums, staged.summary):
    atomic.move(file, folder.path / file.name)
  staged.path.rmdir()


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
  path = tmp_path_factory.mktemp("samples")
  return [make(path / str(seed), seed=seed) for seed in range(2)]


@pytest.fixture
def folder(two_runs, tmp_path):
  """Returns a finished run, which tests may damage."""
  shutil.copytree(two_runs[0].path, tmp_path / "run")
  return RunFolder(tmp_path / "run")


def _half(content):
  return content[: len(content) // 2]


def _without_a_row(content):
  rows = content.splitlines(keepends=True)
  return b"".join(rows[:-2] + rows[-1:])


def _swapped_rows(content):
  rows = content.splitlines(keepends=True)
  return b"".join([*rows[:-2], *rows[-1:], *rows[-2:-1]])


def _another_digit(content):
  place = max(content.rfind(b"%d" % digit) for digit in range(10))
  digit = b"8" if content[place : place + 1] != b"8" else b"7"
  return content[:place] + digit + content[place + 1 :]


def _without_a_column(content):
  rows = content.splitlines(keepends=True)
  return b"".join(
    row.rpartition(b",")[0] + (b"\n" if b"," in row else row) for row in rows
  )


def outcome(folder, *, verify):
  """Returns the messages about a run, whether it is refused or not."""
  try:
    found = discovery.find_intact(folder.path, verify=verify)
    assert found.runs
    lines = found.notes
  except RunError as error:
    lines = [str(error)]
  return " ".join(lines)


@pytest.mark.parametrize(
  "damage",
  [_half, _without_a_row, _swapped_rows, _another_digit, _without_a_column],
)
def test_damage_to_any_file_is_said(two_runs, tmp_path, damage):
  names = checksums.read(two_runs[0].path)
  assert len(names) > 9
  for number, name in enumerate(names):
    content = (two_runs[0].path / name).read_bytes()
    if (damaged := damage(content)) == content:
      continue  # This damage does not apply to this file.
    copy = RunFolder(tmp_path / str(number))
    shutil.copytree(two_runs[0].path, copy.path)
    (copy.path / name).write_bytes(damaged)
    assert name in outcome(copy, verify=True)
    if len(damaged) != len(content) and "/" not in name:
      assert name in outcome(copy, verify=False)


def test_what_may_change_later_is_not_said(folder):
  folder.curves_plot.write_bytes(b"drawn again")
  (folder.path / "model.keras").write_bytes(b"an export")
  (folder.path / "model_card.md").write_text("its card")
  folder.replay.write_text("round\n")
  folder.tensorboard.mkdir()
  (folder.tensorboard / "events").write_text("x")
  assert integrity.changes(folder, verify=True) == {}
  # Users may delete states to save space; only `verify` notices that.
  shutil.rmtree(folder.checkpoints)
  assert integrity.changes(folder) == {}
  (missing,) = integrity.changes(folder, verify=True)
  assert missing == "checkpoints/program_state_6/variables/data"


def test_tables_of_an_unfinished_run_may_grow(tmp_path):
  folder = make(tmp_path / "run", seed=0, is_finished=False)
  with folder.evaluations.open("a") as file:
    file.write("7,0.5")
  assert integrity.changes(folder, verify=True) == {}
  folder.evaluations.write_bytes(
    _another_digit(folder.evaluations.read_bytes())
  )
  # Only round 7 has changed, which will be repeated.
  assert integrity.changes(folder, verify=True) == {}
  content = folder.evaluations.read_bytes()
  folder.evaluations.write_bytes(content.replace(b"\n6,", b"\n5,"))
  assert set(integrity.changes(folder, verify=True)) == {"evaluations.csv"}
  folder.evaluations.write_bytes(_half(content))
  assert set(integrity.changes(folder)) == {"evaluations.csv"}


def test_states_and_tapes_of_an_unfinished_run_are_verified(tmp_path):
  folder = make(tmp_path / "run", seed=0, is_finished=False)
  state = checkpoints.path(folder.checkpoints, 6)
  folder.model.write_text("{}")
  recorder = tape_files.Recorder(folder)
  for round_num in (6, 7):
    updates = np.full(3, round_num, np.float32)
    recorder.write(round_num, {"updates": updates})
  integrity.write_checksums(folder)
  assert integrity.changes(folder, verify=True) == {}
  full, growing = sorted(folder.tape.iterdir())
  data = state / "variables" / "data"
  for file in (full, growing, data):
    file.write_bytes(b"?" + file.read_bytes()[1:])
  assert set(integrity.changes(folder, verify=True)) == {
    f"tape/{full.name}",
    "checkpoints/program_state_6",
  }
  assert integrity.changes(folder) == {}


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_settings_and_checksums_of_states_are_verified(tmp_path, content):
  folder = make(tmp_path / "run", seed=0, is_finished=False)
  folder.config.write_text(folder.config.read_text() + "\n")
  state = checkpoints.path(folder.checkpoints, 6)
  of_state = state / checksums.FILE
  of_state.unlink() if content is None else of_state.write_bytes(content)
  assert set(integrity.changes(folder, verify=True)) == {
    "config.json",
    "checkpoints/program_state_6",
  }
  assert set(integrity.changes(folder)) == {"config.json"}


def test_files_that_a_finished_run_did_not_write_are_said(folder):
  folder.groups.write_text("group\n")
  assert set(integrity.changes(folder)) == {"groups.csv"}
  added = folder.checkpoints / "program_state_9" / "variables"
  added.mkdir(parents=True)
  (added / "data").write_text("")
  assert set(integrity.changes(folder, verify=True)) == {
    "groups.csv",
    "checkpoints/program_state_9/variables/data",
  }


def test_a_finished_run_has_its_last_evaluation(folder):
  rows = folder.evaluations.read_bytes().splitlines(keepends=True)
  folder.evaluations.write_bytes(b"".join(rows[:4]))
  with pytest.raises(RunError, match=r"ends with round 3, .* says 6"):
    _ = experiments.open_run(folder.path).evaluations
  # The missing evaluation is noticed even if the checksums are lost, too.
  folder.checksums.unlink()
  with pytest.raises(RunError, match=r"ends with round 3, .* says 6"):
    experiments.compare(folder.path)


@pytest.mark.parametrize("name", ["costs.csv", "clients.csv"])
def test_a_row_that_is_cut_off_is_refused(folder, name):
  table = folder.path / name
  table.write_bytes(table.read_bytes()[:-2])
  with pytest.raises(RunError, match=f"{name}: is cut off in row "):
    discovery.find_intact(folder.path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"summary.json": 3}'])
def test_damaged_checksums_are_said(folder, text, capsys):
  folder.checksums.write_text(text)
  experiments.open_run(folder.path)
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith(f"{folder.path}: changed")
  assert "checksums.json cannot be read" in line


def test_checksums_name_files_of_the_run_alone(folder, tmp_path):
  (tmp_path / "secret").write_text("1")
  sums = {"bytes": 99, "sha256": ""}
  names = ("../secret", str(tmp_path / "secret"), "mine.txt", ".", "")
  folder.checksums.write_text(parsing.json_text(dict.fromkeys(names, sums)))
  assert not {*names} & {*integrity.changes(folder, verify=True)}


def test_the_user_asks_for_all_files(folder, tmp_path, capsys):
  assert experiments.open_run(folder.path, verify=True).is_finished
  assert capsys.readouterr().err == ""
  table = folder.clients
  table.write_bytes(_another_digit(table.read_bytes()))
  experiments.open_run(folder.path)
  assert capsys.readouterr().err == ""
  experiments.open_runs(tmp_path, verify=True)
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith(f"{folder.path}: ")
  assert "clients.csv has changed" in line
  # Without checksums, changes cannot be noticed.
  folder.checksums.unlink()
  experiments.open_run(folder.path)
  assert capsys.readouterr().err == ""
  experiments.open_run(folder.path, verify=True)
  assert "checksums.json is missing" in capsys.readouterr().err


exports = in_process.program_of(export)
compares = in_process.program_of(compare)


def test_compare_verifies(compares, two_runs, folder):
  shutil.copytree(two_runs[1].path, folder.path.with_name("other"))
  table = folder.client_evaluations
  table.write_bytes(_another_digit(table.read_bytes()))
  words = (str(folder.path), str(folder.path.with_name("other")))
  assert "changed since" not in compares(*words)[1]
  status, out, err = compares(*words, "--verify")
  assert status == 1
  (line,) = err.splitlines()
  assert "--verify: 1 of 2 runs" in line
  assert "client_evaluations.csv has changed" in out
  assert str(folder.path.with_name("other")) not in out
  # An unreadable table counts as a changed table, too.
  table.write_text("")
  status, out, err = compares(*words, "--verify")
  assert status == 1
  assert "Left out, because it is damaged: " in out
  assert "--verify: 1 of 2 runs" in err
  assert compares(words[1], "--verify").status == 0


def test_export_says_which_tables_have_changed(exports, folder):
  folder.checkpoints.rename("kept")
  words = (str(folder.path), "--output=model.keras")
  untouched = exports(*words)
  assert untouched.status == 2  # The run has no state.
  assert "changed" not in untouched.stderr
  for table, damage in (
    (folder.evaluations, _another_digit),
    (folder.client_evaluations, _without_a_row),
  ):
    table.write_bytes(damage(table.read_bytes()))
    line = exports(*words).stderr.splitlines()[0]
    assert line.startswith(f"{folder.path}: changed since")
    assert table.name in line
