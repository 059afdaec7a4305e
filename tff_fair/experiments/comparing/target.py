"""What a method costs until a measure of its clients reaches a target."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tff_fair.declared import FieldError
from tff_fair.experiments.comparing import evaluations, measures
from tff_fair.experiments.comparing.groups import Group
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.comparing.table import Row, Table
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.scores import Score

# The tables of a run that have the costs.
READ = ("rounds", "costs")
_STEPS = "client_work/train/num_batches"  # In metrics.csv.

_COST = Measure("", False, 1.0, 0, missing="not reached")
_COLUMNS: Mapping[str, Measure] = {
  "reached": Measure("Seeds that reach it", True, 1.0, 0),
  "rounds_to": _COST._replace(title="Rounds", digits=1),
  "bytes_to": _COST._replace(title="Bytes"),
  "steps_to": _COST._replace(title="Local steps"),
}


class Target(NamedTuple):
  """A value that a measure is to reach.

  Attributes:
    value: The value, not scaled: 0.8 for an accuracy of 80 %.
    of: The name of the measure.
  """

  value: float
  of: str = "mean"

  def measure(self, score: Score, task: str) -> Measure:
    """Returns the measure.

    Args:
      score: The score of the runs.
      task: Their task, for errors.

    Raises:
      FieldError: If the runs do not have it, or it never has the value.
    """
    found = measures.find(self.of, score, task, "target_of")
    highest = found.lowest + found.span
    if not found.lowest <= self.value <= highest:
      raise FieldError(
        "target",
        f"{self.of} of {task} is from {found.lowest:g} to {highest:g}.",
        value=self.value,
      )
    return found

  def table(
    self, task: str, groups: Sequence[Group], score: Score, *, honest: bool
  ) -> Table:
    """Returns what each method costs to get there, over the seeds that do.

    Args:
      task: The task, its options and the number of clients.
      groups: The methods.
      score: The score of the runs.
      honest: Whether clients that attack are left out.

    Raises:
      FieldError: As `measure`.
      RunError: If a run lacks the measure.
    """
    measure = self.measure(score, task)
    rows = []
    for group in groups:
      costs = [self._costs(run, measure, honest=honest) for run in group.runs]
      reached = [cost for cost in costs if cost is not None]
      columns = zip(*reached, strict=True) if reached else [[math.nan]] * 3
      values = (
        measures.Value(len(reached), None),
        *(
          measures.over_seeds(shown, list(column))
          for shown, column in zip(
            list(_COLUMNS.values())[1:], columns, strict=True
          )
        ),
      )
      rows.append(Row(group.label, len(group.runs), values, (None,) * 4))
    text = measures.value_text(
      measure, measures.Value(measure.scale * self.value, None)
    )
    caption = (
      f"all that clients send, receive and compute until {measure.words} is "
      f"{text}{score.sign if measure.scale == score.scale else ''} or better "
      "after a round that was evaluated, over the seeds that reach it"
    )
    return Table(task, caption, _COLUMNS, tuple(rows), ())

  def _costs(
    self, run: Run, measure: Measure, *, honest: bool
  ) -> tuple[float, float, float] | None:
    """Returns the rounds, bytes and local steps of a run; None if it fails."""
    values = evaluations.measure_over_rounds(run, self.of, honest=honest)
    is_there = (
      values >= self.value if measure.higher_is_better else values <= self.value
    )
    numbers = run.evaluations[ROUND][is_there]
    numbers = numbers[numbers > 0]
    if not len(numbers):
      return None
    last = int(numbers.min())
    num_bytes = steps = math.nan
    if (costs := run.costs) is not None:
      until = costs[costs[ROUND] <= last]
      num_bytes = float((until["bytes_down"] + until["bytes_up"]).sum())
    if _STEPS in run.rounds:
      of_rounds = run.rounds[run.rounds[ROUND] <= last]
      steps = float(of_rounds[_STEPS].astype(float).sum())
    return last, num_bytes, steps
