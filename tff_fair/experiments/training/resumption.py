"""Where an interrupted run goes on: after its last round that is whole.

A state is saved after the rows of its rounds, and outlasts a power cut with
them; so nothing but damage to the disk takes what a saved round had. Then an
earlier one is the last that is whole, or the beginning: what comes after it is
run again, with the same result.
"""

from collections.abc import Callable

from tff_fair.experiments import progress
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import loop as training_loop
from tff_fair.experiments.training import release


def go_back(
  folder: RunFolder,
  settings: training_loop.Settings,
  *,
  num_reporting: Callable[[int], int],
  num_evaluated: int,
) -> int:
  """Removes what the folder of a run has of rounds that will come again.

  Args:
    folder: The folder, at the beginning or after an interruption.
    settings: How long to train, and when to evaluate.
    num_reporting: Returns how many clients reported back in a round.
    num_evaluated: How many clients are evaluated.

  Returns:
    The round to go on from, 0 for the beginning.

  Raises:
    UsageError: If a table is not as a run left it.
  """
  is_complete = _build_check(folder, settings, num_reporting, num_evaluated)
  completed = 0
  for round_num in reversed(release.saved_rounds(folder)):
    damage = None
    if not release.is_readable(folder, round_num):
      damage = "its state cannot be read"
    elif not is_complete(round_num):
      damage = "its tables lack rows"
    if damage is None:
      completed = round_num
      break
    progress.say(
      f"{folder.path}: round {round_num} was saved, but {damage}; it is run "
      "again."
    )
  release.keep_states(folder, completed)
  for table in folder.round_tables:
    release.keep_rounds(table, completed)
  return completed


def _build_check(
  folder: RunFolder,
  settings: training_loop.Settings,
  num_reporting: Callable[[int], int],
  num_evaluated: int,
) -> Callable[[int], bool]:
  """Returns a function that says whether tables have all rows up to a round."""
  rows = {table: release.count_rows(table) for table in folder.round_tables}

  def is_complete(saved: int) -> bool:
    evaluated = saved
    if saved != settings.total_rounds:
      evaluated -= saved % settings.rounds_per_evaluation
    needed = [(folder.metrics, saved, 1), (folder.timing, saved, 1)]
    # Runs from before there were these tables have none.
    if any(n <= saved for n in rows[folder.costs] | rows[folder.cohorts]):
      needed += [
        (folder.costs, saved, 1),
        (folder.cohorts, saved, num_reporting(saved)),
      ]
    if evaluated:
      needed += [
        (folder.evaluations, evaluated, 1),
        (folder.client_evaluations, evaluated, num_evaluated),
      ]
    return all(rows[table][n] == number for table, n, number in needed)

  return is_complete
