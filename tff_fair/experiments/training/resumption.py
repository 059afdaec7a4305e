"""Where an interrupted run goes on: after its last round that is whole.

A state is saved after the rows of its rounds, and outlasts a power cut with
them; so nothing but damage to the disk takes what a saved round had. Then an
earlier one is the last that is whole, or the beginning: what comes after it is
run again, with the same result.
"""

import pathlib
from collections.abc import Callable, Mapping

from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import event_files, release


def go_back(
  folder: RunFolder,
  *,
  total_rounds: int,
  rounds_per_evaluation: int,
  num_reporting: Callable[[int], int],
  num_evaluated: int,
  say: Callable[[str], None],
) -> int:
  """Removes what the folder of a run has of rounds that will come again.

  Args:
    folder: The folder, at the beginning or after an interruption.
    total_rounds: How many rounds the run has.
    rounds_per_evaluation: After so many it evaluates the model.
    num_reporting: Returns how many clients reported back in a round.
    num_evaluated: How many clients it evaluates.
    say: Takes a line about damage.

  Returns:
    The round to go on from, 0 for the beginning.

  Raises:
    RunError: If a table is not as a run left it.
  """
  rows = {table: release.count_rows(table) for table in folder.round_tables}
  completed = 0
  for round_num in reversed(release.saved_rounds(folder)):
    damage = None
    if not release.is_readable(folder, round_num):
      damage = "its state cannot be read"
    elif not _has_rows(
      folder,
      rows,
      round_num,
      evaluated=round_num
      if round_num == total_rounds
      else round_num - round_num % rounds_per_evaluation,
      num_reporting=num_reporting(round_num),
      num_evaluated=num_evaluated,
    ):
      damage = "its tables lack rows"
    if damage is None:
      completed = round_num
      break
    say(
      f"{folder.path}: round {round_num} was saved, but {damage}; it is run "
      "again."
    )
  release.keep_states(folder, completed)
  # From the beginning, the evaluation before training comes again, too.
  last_kept = completed or -1
  for table in folder.round_tables:
    release.keep_rounds(table, last_kept)
  event_files.keep_rounds(folder, last_kept)
  return completed


def _has_rows(
  folder: RunFolder,
  rows: Mapping[pathlib.Path, Mapping[int, int]],
  saved: int,
  *,
  evaluated: int,
  num_reporting: int,
  num_evaluated: int,
) -> bool:
  """Returns whether tables have all rows up to a saved round.

  Args:
    folder: The folder.
    rows: The number of rows of each round, by table.
    saved: The round.
    evaluated: The last round up to it with an evaluation; 0 is that before
      training.
    num_reporting: How many clients reported back in the round.
    num_evaluated: How many clients an evaluation has.
  """
  needed = [(folder.metrics, saved, 1), (folder.timing, saved, 1)]
  # Runs from before there were these tables have none.
  if any(n <= saved for n in {**rows[folder.costs], **rows[folder.cohorts]}):
    needed += [
      (folder.costs, saved, 1),
      (folder.cohorts, saved, num_reporting),
    ]
  evaluations = {
    folder.evaluations: 1,
    folder.client_evaluations: num_evaluated,
  }
  # Runs of before version 0.2 have no round 0.
  if evaluated or any(rows[table].get(0) for table in evaluations):
    needed += [(table, evaluated, n) for table, n in evaluations.items()]
  return all(rows[table].get(n, 0) == number for table, n, number in needed)
