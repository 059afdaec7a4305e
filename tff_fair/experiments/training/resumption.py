"""Where an interrupted run goes on: after its last round that is whole.

A state is saved after the rows of its rounds, and outlasts a power cut with
them; so nothing but damage to the disk takes what a saved round had. Then an
earlier one is the last that is whole: what comes after it is run again, with
the same result. The later state stays in `set_aside`, since the damage may be
to a table alone. Where no saved round is whole, the run stops and changes
nothing: a new beginning is for the user to decide.
"""

import pathlib
from collections.abc import Callable, Mapping

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checkpoints, tape_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import event_files, loop, release

_Rows = Mapping[pathlib.Path, Mapping[int, int]]


def go_back(
  folder: RunFolder,
  schedule: loop.Schedule,
  *,
  num_reporting: Callable[[int], int],
  num_evaluated: int,
  say: Callable[[str], None],
  taped_rounds: int = 0,
) -> int:
  """Removes what the folder of a run has of rounds that will come again.

  Args:
    folder: The folder, at the beginning or after an interruption.
    schedule: When the run evaluates the model. An evaluation at another round
      was of a last one, when the run had fewer rounds; the folder loses it.
    num_reporting: Returns how many clients reported back in a round.
    num_evaluated: How many clients it evaluates.
    say: Takes a line about damage.
    taped_rounds: How many rounds it keeps on tape, the first ones.

  Returns:
    The round to go on from, 0 for the beginning.

  Raises:
    RunError: If rounds were saved and none of them is whole, or if a file
      cannot be read at present. Then the folder is as it was.
  """
  rows = {table: release.count_rows(table) for table in folder.round_tables}
  completed = 0
  doubts: dict[int, str] = {}
  for round_num in reversed(release.saved_rounds(folder)):
    doubt = _damage(folder, round_num) or _missing_rows(
      folder,
      rows,
      round_num,
      evaluated=schedule.last_evaluation(round_num),
      num_reporting=num_reporting(round_num),
      num_evaluated=num_evaluated,
    )
    if doubt is None and round_num <= taped_rounds:
      doubt = _missing_on_tape(folder, round_num)
    if doubt is None:
      completed = round_num
      break
    doubts[round_num] = doubt
  if doubts and not completed:
    raise _nothing_whole(folder, doubts)

  best_states = release.lost_best_states(folder, completed, schedule.evaluates)
  # Nothing was changed so far.
  folder.remove_leftovers()
  _set_aside(folder, doubts, completed, say)
  release.remove_states(folder, best_states, keeps_aside=bool(doubts))
  # From the beginning, the evaluation before training comes again, too.
  last_kept = completed or -1
  for table in folder.round_tables:
    if table in (folder.evaluations, folder.client_evaluations):
      release.keep_rounds(table, last_kept, schedule.evaluates)
    else:
      release.keep_rounds(table, last_kept)
  event_files.keep_rounds(folder, last_kept, schedule.evaluates)
  if taped_rounds:
    tape_files.keep_rounds(folder, completed)
  return completed


def _set_aside(
  folder: RunFolder,
  doubts: Mapping[int, str],
  completed: int,
  say: Callable[[str], None],
) -> None:
  """Moves away the states of rounds that are not whole, and says why."""
  for round_num, doubt in doubts.items():
    state = checkpoints.path(folder.checkpoints, round_num)
    place = folder.move_aside(state)
    say(
      f"{folder.path}: round {round_num} was saved, but {doubt}. Its state is "
      f"in {place.relative_to(folder.path)} now, and the run goes on from "
      f"round {completed}."
    )


def _nothing_whole(folder: RunFolder, doubts: Mapping[int, str]) -> RunError:
  found = "; ".join(
    f"round {round_num} was saved, but {doubt}"
    for round_num, doubt in doubts.items()
  )
  return RunError(
    f"{folder.path}: cannot go on: {found}. Nothing was changed. Put back what "
    "is missing, or start anew in another folder; to start anew in this one, "
    f"move {folder.checkpoints} away."
  )


def _damage(folder: RunFolder, saved: int) -> str | None:
  """Returns how the state of a saved round is damaged, if it is."""
  found = release.find_damage(folder, saved)
  return None if found is None else f"its state is damaged: {found}"


def _missing_on_tape(folder: RunFolder, round_num: int) -> str | None:
  """Returns why the tape lacks a round, if it does."""
  try:
    found = tape_files.has_round(folder, round_num)
  except RunError as error:
    return f"its tape cannot be read: {error}"
  return None if found else f"{folder.tape.name} lacks round {round_num}"


def _missing_rows(
  folder: RunFolder,
  rows: _Rows,
  saved: int,
  *,
  evaluated: int,
  num_reporting: int,
  num_evaluated: int,
) -> str | None:
  """Returns which rows tables lack up to a saved round, if any.

  Args:
    folder: The folder.
    rows: The number of rows of each round, by table.
    saved: The round.
    evaluated: The last round up to it with an evaluation; 0 is that before
      training.
    num_reporting: How many clients reported back in the round.
    num_evaluated: How many clients an evaluation has.
  """
  for table, round_num, number in (
    *((table, saved, 1) for table in (folder.metrics, folder.timing)),
    (folder.costs, saved, 1),
    (folder.cohorts, saved, num_reporting),
    (folder.evaluations, evaluated, 1),
    (folder.client_evaluations, evaluated, num_evaluated),
  ):
    found = rows[table].get(round_num, 0)
    if found == number:
      continue
    if not table.exists():
      return f"{table.name} is missing"
    return f"{table.name} has {found} of the {number} rows of round {round_num}"
  return None
