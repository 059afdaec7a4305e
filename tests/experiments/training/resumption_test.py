"""Tests of where an interrupted run goes on, on tables made by hand."""

import asyncio

import numpy as np
import pytest

from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import release, resumption

NUM_EVALUATED = 2
STATE = {"weights": np.arange(300.0)}


def num_reporting(round_num):
  return 1 + round_num % 3


def table(*rounds):
  return "".join(["round,value\r\n", *(f"{n},0.5\r\n" for n in rounds)])


@pytest.fixture
def folder(tmp_path):
  """A run that was killed after round 8; rounds 3 and 6 are saved."""
  folder = run_folder.RunFolder(tmp_path)
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
  for manager, saved in (
    (release.open_checkpoints(folder), (3, 6)),
    (release.open_best_checkpoints(folder), (2, 6)),
  ):
    for round_num in saved:
      asyncio.run(manager.save(STATE, round_num))
  return folder


def go_back(folder, rounds_per_evaluation=2):
  return resumption.go_back(
    folder,
    total_rounds=9,
    rounds_per_evaluation=rounds_per_evaluation,
    num_reporting=num_reporting,
    num_evaluated=NUM_EVALUATED,
    say=progress.say,
  )


def check_whole(folder, completed):
  """Checks that just what belongs to the rounds up to one is there."""
  for path in folder.round_tables:
    rounds = release.count_rows(path)
    assert max(rounds, default=0) <= completed
    assert path.exists() == bool(rounds)
  assert release.last_saved_round(folder) == completed
  assert sum(release.count_rows(folder.metrics).values()) == completed
  best = [n for n in (2, 6) if release.best_checkpoint(folder, n).exists()]
  assert best == [n for n in (2, 6) if n <= completed]


def test_a_killed_run_goes_on_from_its_last_state(folder, capsys):
  assert go_back(folder) == 6
  check_whole(folder, 6)
  assert release.saved_rounds(folder) == [3, 6]
  assert capsys.readouterr().err == ""


def test_a_new_run_begins(tmp_path):
  assert go_back(run_folder.RunFolder(tmp_path)) == 0


@pytest.mark.parametrize(
  ("name", "rows_lost", "completed"),
  [
    ("metrics", 2, 6),
    ("metrics", 3, 3),
    ("metrics", 6, 0),
    ("timing", 3, 3),
    ("costs", 3, 3),
    # One of the clients of round 6.
    ("cohorts", 6, 3),
    ("evaluations", 2, 3),
    ("evaluations", 4, 0),
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
  path.write_bytes(
    b"".join(lines[:-rows_lost]) + bytes(len(lost)) * leaves_zeros
  )
  assert go_back(folder) == completed
  check_whole(folder, completed)
  told = capsys.readouterr().err
  assert ("round 6 was saved, but its tables lack rows" in told) == (
    completed < 6
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
  assert go_back(folder) == 3
  check_whole(folder, 3)
  assert "round 6 was saved, but its state cannot be read" in (
    capsys.readouterr().err
  )


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
  assert release.count_rows(folder.evaluations) == {0: 1, 2: 1, 4: 1, 6: 1}


def test_from_the_beginning_the_evaluation_before_training_comes_again(folder):
  add_round_0(folder)
  folder.metrics.write_text(table(1, 2))
  assert go_back(folder) == 0
  check_whole(folder, 0)


@pytest.mark.parametrize("rows", [(1, 1), (0, 2), (1, 0)])
def test_an_evaluation_before_training_that_lost_rows_is_made_again(
  folder, rows
):
  for path in (folder.evaluations, folder.client_evaluations):
    path.write_text(table())
  add_round_0(folder, *rows)
  release.keep_states(folder, 3)
  assert go_back(folder, rounds_per_evaluation=4) == 0
  check_whole(folder, 0)


def test_tables_that_are_younger_than_the_run_may_be_absent(folder):
  folder.costs.unlink()
  # It went on with a version that writes this one, and was killed again.
  folder.cohorts.write_text(table(7, 7))
  assert go_back(folder) == 6


def test_a_table_that_somebody_changed_is_left_alone(folder):
  text = folder.metrics.read_text().replace(",", ";")
  folder.metrics.write_text(text)
  with pytest.raises(RunError, match=r"metrics\.csv .* put the file back"):
    go_back(folder)
  assert folder.metrics.read_text() == text
  assert release.saved_rounds(folder) == [3, 6]
