"""Tests of the round where an interrupted run resumes, on handmade tables."""

import errno
import io
import os
import pathlib
import shutil
from unittest import mock

import numpy as np
import pytest

from tests.experiments.training.rounds_test import round_state
from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import (
  checkpoints,
  checksums,
  folder as run_folder,
  integrity,
)
from tff_fair.experiments.training import (
  loop,
  resume,
  round_tables,
  saved_states,
)
from tff_fair.files import atomic

NUM_EVALUATED = 2
STATE = {"weights": np.arange(300.0)}


def num_reporting(round_num):
  return 1 + round_num % 3


def table(*rounds):
  return "".join(["round,value\r\n", *(f"{n},0.5\r\n" for n in rounds)])


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory):
  """Makes a run that was killed after round 8; rounds 3 and 6 are saved."""
  folder = run_folder.RunFolder(tmp_path_factory.mktemp("runs") / "killed")
  folder.path.mkdir()
  rounds, evaluated = range(1, 9), (2, 4, 6, 8)
  for path in (folder.metrics, folder.timing, folder.costs):
    path.write_text(table(*rounds))
  folder.evaluations.write_text(table(*evaluated))
  folder.cohorts.write_text(
    table(*(n for n in rounds for _ in range(num_reporting(n))))
  )
  folder.client_evaluations.write_text(
    table(*(n for n in evaluated for _ in range(NUM_EVALUATED)))
  )
  for states, saved in (
    (folder.checkpoints, (3, 6)),
    (folder.best_checkpoint, (2, 6)),
  ):
    for round_num in saved:
      save(states, round_num)
  return folder.path


def save(states, round_num):
  saved_states.Checkpoints(states).save(round_state(round_num, STATE))


@pytest.fixture
def folder(killed_run, tmp_path):
  shutil.copytree(killed_run, tmp_path, dirs_exist_ok=True)
  return run_folder.RunFolder(tmp_path)


def go_back(folder, rounds_per_evaluation=2):
  return resume.roll_back(
    folder,
    loop.Schedule(9, rounds_per_evaluation, rounds_per_checkpoint=3),
    num_reporting=num_reporting,
    num_evaluated=NUM_EVALUATED,
    say=progress.say,
  )


def leave_what_a_kill_leaves(folder):
  """Leaves the temporary file of a table that the killed run was writing."""
  (folder.path / "metrics.csv_temp1234").write_text(table(1))


def everything_in(path):
  """Returns the contents of all files under `path`, by path."""
  return {
    str(file.relative_to(path)): file.read_bytes()
    for file in path.rglob("*")
    if file.is_file()
  }


def check_stops(folder, match):
  """Checks that resuming fails in one line, and changes nothing."""
  leave_what_a_kill_leaves(folder)
  before = everything_in(folder.path)
  with pytest.raises(RunError, match=match) as info:
    go_back(folder)
  assert str(info.value).startswith(str(folder.path))
  assert everything_in(folder.path) == before


def check_whole(folder, completed):
  """Checks that the folder has exactly the rounds up to `completed`."""
  for path in folder.round_tables:
    rounds = round_tables.count_rows(path)
    assert max(rounds, default=0) <= completed
    assert path.exists() == bool(rounds)
  assert folder.last_saved_round == completed
  assert sum(round_tables.count_rows(folder.metrics).values()) == completed
  best = checkpoints.saved_rounds(folder.best_checkpoint)
  assert best == [n for n in (2, 6) if n <= completed]


def test_a_killed_run_goes_on_from_its_last_state(folder, capsys):
  leave_what_a_kill_leaves(folder)
  assert go_back(folder) == 6
  check_whole(folder, 6)
  assert not list(folder.path.glob("*_temp*"))
  assert checkpoints.saved_rounds(folder.checkpoints) == [3, 6]
  assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
  ("name", "rows_lost", "completed"),
  [
    ("metrics", 2, 6),
    ("metrics", 3, 3),
    ("timing", 3, 3),
    ("costs", 3, 3),
    # A client of round 6 is missing.
    ("cohorts", 6, 3),
    ("evaluations", 2, 3),
    ("client_evaluations", 2, 6),
    ("client_evaluations", 3, 3),
  ],
)
@pytest.mark.parametrize("leaves_zeros", [False, True])
def test_a_round_that_lost_rows_is_run_again(
  folder, capsys, name, rows_lost, completed, leaves_zeros
):
  path = getattr(folder, name)
  lines = path.read_bytes().splitlines(keepends=True)
  lost = b"".join(lines[-rows_lost:])
  states_of_round_6 = {
    name: content
    for name, content in everything_in(folder.path).items()
    if "program_state_6" in name
  }
  path.write_bytes(
    b"".join(lines[:-rows_lost]) + bytes(len(lost)) * leaves_zeros
  )
  assert go_back(folder) == completed
  check_whole(folder, completed)
  told = capsys.readouterr().err
  assert (f"round 6 was saved, but {path.name} has " in told) == (completed < 6)
  assert everything_in(folder.set_aside) == (
    states_of_round_6 if completed < 6 else {}
  )


@pytest.mark.parametrize(
  "pattern", ["*", "saved_model.pb", "variables/*.index", "variables/*.data-*"]
)
@pytest.mark.parametrize("damage", ["cut off", "zeros", "gone"])
def test_a_state_that_was_damaged_is_not_gone_on_from(
  folder, capsys, pattern, damage
):
  state = folder.checkpoints / "program_state_6"
  files = [file for file in state.rglob("*") if file.is_file()]
  damaged = [file for file in files if file.match(pattern)]
  assert damaged
  for file in damaged:
    size = file.stat().st_size
    if damage == "gone":
      file.unlink()
    else:
      file.write_bytes(
        bytes(size) if damage == "zeros" else file.read_bytes()[: size // 2]
      )
  kept = everything_in(state)
  assert go_back(folder) == 3
  check_whole(folder, 3)
  told = capsys.readouterr().err
  assert "round 6 was saved, but its state is damaged" in told
  assert "resumes after round 3" in told
  assert everything_in(folder.set_aside / "checkpoints" / state.name) == kept


def test_a_state_in_which_a_bit_flipped_is_not_gone_on_from(folder):
  state = folder.checkpoints / "program_state_6"
  generator = np.random.default_rng(0)
  for file in sorted(file for file in state.rglob("*") if file.is_file()):
    whole = file.read_bytes()
    for place in generator.integers(8 * len(whole), size=25):
      damaged = bytearray(whole)
      damaged[place // 8] ^= 1 << place % 8
      file.write_bytes(damaged)
      assert checkpoints.find_damage(state)
    file.write_bytes(whole)
  assert checkpoints.find_damage(state) is None


@pytest.mark.parametrize(
  "text", [None, "", "{", "[" * 20_000, "[]", "{}", "\xff"]
)
def test_damaged_checksums_are_damage(folder, text):
  path = folder.checkpoints / "program_state_6" / checksums.FILE
  if text is None:
    path.unlink()
  else:
    path.write_text(text, "latin-1")
  assert checksums.FILE in (checkpoints.find_damage(path.parent) or "")


def test_a_state_that_was_set_aside_is_not_replaced(folder):
  contents = []
  for _ in range(2):
    state = folder.checkpoints / "program_state_6"
    (state / "saved_model.pb").write_bytes(bytes(len(contents)))
    contents.append(everything_in(state))
    assert go_back(folder) == 3
    save(folder.checkpoints, 6)
  aside = folder.set_aside / "checkpoints"
  found = [everything_in(path) for path in sorted(aside.iterdir())]
  assert found == contents


def test_where_no_state_is_whole_the_run_stops(folder):
  for number in (3, 6):
    state = folder.checkpoints / f"program_state_{number}"
    (state / "saved_model.pb").unlink()
  check_stops(
    folder,
    r"round 6 was saved, but .*saved_model\.pb is missing; round 3 was .*"
    r"move .*checkpoints away",
  )


def test_without_a_table_or_its_rows_the_run_stops(folder):
  for path in folder.round_tables:
    text = path.read_bytes()
    path.unlink()
    check_stops(folder, f"round 6 was saved, but {path.name} is missing; .*Put")
    path.write_bytes(text.splitlines(keepends=True)[0])
    check_stops(folder, rf"{path.name} has 0 of the \d rows of round 6")
    path.write_bytes(text)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
  "unreadable",
  ["timing.csv", "saved_model.pb", "variables.index", "checksums.json"],
)
def test_what_cannot_be_read_for_the_moment_is_no_damage(
  folder, monkeypatch, number, unreadable
):
  opened = io.open

  def refuse(file, *args, **kwargs):
    if is_refused and pathlib.Path(file).name == unreadable:
      raise OSError(number, os.strerror(number), str(file))
    return opened(file, *args, **kwargs)

  monkeypatch.setattr(io, "open", refuse)
  is_refused = False
  before = everything_in(folder.path)
  is_refused = True
  with pytest.raises(RunError, match=unreadable):
    go_back(folder)
  is_refused = False
  assert everything_in(folder.path) == before
  assert go_back(folder) == 6


def test_states_on_a_disk_that_is_gone_are_no_missing_ones(folder):
  folder.checkpoints.rename(folder.path / "elsewhere")
  folder.checkpoints.symlink_to(folder.path / "unmounted")
  check_stops(folder, "checkpoints: cannot be read: No such file")


def add_round_0(folder, evaluations=1, clients=NUM_EVALUATED):
  for path, number in (
    (folder.evaluations, evaluations),
    (folder.client_evaluations, clients),
  ):
    header, *rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *["0,0.5\r\n"] * number, *rows]))


def test_the_evaluation_before_training_stays(folder):
  add_round_0(folder)
  assert go_back(folder) == 6
  assert round_tables.count_rows(folder.evaluations) == {0: 1, 2: 1, 4: 1, 6: 1}


def test_from_the_beginning_the_evaluation_before_training_comes_again(folder):
  add_round_0(folder)
  folder.checkpoints.rename(folder.path / "moved_away")
  assert go_back(folder) == 0
  check_whole(folder, 0)


@pytest.mark.parametrize("rows", [(1, 1), (0, 2), (1, 0)])
def test_an_evaluation_before_training_that_lost_rows_is_missed(folder, rows):
  for path in (folder.evaluations, folder.client_evaluations):
    path.write_text(table())
  add_round_0(folder, *rows)
  shutil.rmtree(folder.checkpoints / "program_state_6")
  with pytest.raises(RunError, match="round 0"):
    go_back(folder, rounds_per_evaluation=4)


@pytest.mark.parametrize("text", [None, "", '{"saved_model.pb": {"byt'])
def test_a_first_state_that_was_never_complete_comes_again(folder, text):
  shutil.rmtree(folder.checkpoints / "program_state_3")
  path = folder.checkpoints / "program_state_6" / checksums.FILE
  path.unlink() if text is None else path.write_text(text)
  assert go_back(folder) == 0
  check_whole(folder, 0)
  # The state is kept, because perhaps only its checksums are damaged.
  assert (folder.set_aside / "checkpoints/program_state_6").is_dir()


def test_a_state_is_whole_or_not_there(tmp_path):
  for round_num in (3, 9):
    save(tmp_path, round_num)
  with (
    mock.patch.object(os, "replace", side_effect=OSError("killed")),
    pytest.raises(OSError, match="killed"),
  ):
    save(tmp_path, 10)  # Its checksums cannot be written.
  assert checkpoints.saved_rounds(tmp_path) == [3, 9]
  # The run is killed before it removes the old state.
  with mock.patch.object(shutil, "rmtree"):
    save(tmp_path, 10)
  # The disk space in use does not grow with the number of rounds.
  assert checkpoints.saved_rounds(tmp_path) == [9, 10]
  for round_num in (9, 10):
    state = checkpoints.path(tmp_path, round_num)
    assert checkpoints.find_damage(state) is None


def test_leftovers_on_tape_go(folder):
  left = folder.tape / f"{atomic.STAGING}abc" / "rounds_000001-000010.npz"
  left.parent.mkdir(parents=True)
  left.write_text("half")
  (folder.tape / "of_a_user.txt").write_text("stays")
  assert go_back(folder) == 6
  assert [path.name for path in folder.tape.iterdir()] == ["of_a_user.txt"]


@pytest.mark.parametrize("number", [2, 6])
def test_a_damaged_best_state_is_said(folder, capfd, number):
  state = folder.best_checkpoint / f"program_state_{number}"
  (state / "saved_model.pb").write_text("damaged")
  assert go_back(folder) == 6
  lines = capfd.readouterr().err.splitlines()
  assert [line for line in lines if "saved_model.pb" in line] == lines
  assert str(state) in lines[0]
  assert state.exists()


def test_a_best_state_that_the_run_never_saved_comes_again(folder):
  save(folder.best_checkpoint, 8)
  assert go_back(folder) == 6
  assert checkpoints.saved_rounds(folder.best_checkpoint) == [6]
  assert not folder.set_aside.exists()


def test_best_states_of_evaluations_that_are_not_due_go(folder):
  assert go_back(folder, rounds_per_evaluation=4) == 6
  assert checkpoints.saved_rounds(folder.best_checkpoint) == []


def test_a_table_that_a_user_changed_is_left_alone(folder):
  text = folder.metrics.read_text().replace(",", ";")
  folder.metrics.write_text(text)
  with pytest.raises(RunError, match=r"metrics\.csv"):
    go_back(folder)
  assert folder.metrics.read_text() == text
  assert checkpoints.saved_rounds(folder.checkpoints) == [3, 6]


def test_a_change_since_the_last_state_is_said_once(folder, capsys):
  integrity.write_checksums(folder)
  with folder.timing.open("a") as file:
    file.write(table(9).removeprefix("round,value\r\n"))
  shutil.copytree(folder.path, folder.path / "mine")
  assert go_back(folder) == 6
  assert capsys.readouterr().err == ""
  shutil.copytree(folder.path / "mine", folder.path, dirs_exist_ok=True)
  text = folder.timing.read_bytes()
  folder.timing.write_bytes(text.replace(b"2,0.5", b"2,0.7"))
  assert go_back(folder) == 6
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith(f"{folder.path}: ")
  assert "timing.csv has changed" in line
  # The run will write new checksums.
  assert not folder.checksums.exists()
  assert go_back(folder) == 6
  assert capsys.readouterr().err == ""
