"""Which evaluation of a run to compare, and its measures."""

import dataclasses

import numpy as np
import pandas as pd

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.argument_error import ArgumentError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.run import ROUND, Run

# Which evaluation of a run to compare, beside the number of its round.
LAST, BEST = "last", "best"

_HONEST = "honest/"  # Before columns that leave out the clients that attack.


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """An evaluation of a run.

  Attributes:
    run: The run.
    round: The number of its round.
    honest: Whether clients that attack are left out.
  """

  run: Run
  round: int
  honest: bool

  def measure(self, name: str) -> float:
    """Returns a measure over the clients, not scaled.

    Raises:
      RunError: If the run does not have it.
    """
    values = measure_over_rounds(self.run, name, honest=self.honest)
    return float(values[self.run.evaluations[ROUND] == self.round].iloc[0])

  def accuracies(self) -> pd.Series:
    """Returns the accuracy of each client by its id, attackers included."""
    table = self.run.client_evaluations
    table = table[table[ROUND] == self.round]
    return table.set_index("client_id")["accuracy"].sort_index()

  def left_out(self) -> set[int]:
    """Returns the clients that are left out because they attack.

    Raises:
      ArgumentError: If the run does not say yet which do.
    """
    if not self.honest or self.run.settings.get("attack", "none") == "none":
      return set()
    clients = self.run.clients
    if clients is None:
      raise ArgumentError(
        "honest",
        f"{self.run.path} does not say which clients attack as long as it is "
        "not finished; leave it out.",
      )
    return set(clients["client_id"][clients["attacker"]])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
  """Which evaluation of each run to compare.

  Attributes:
    round: The number of its round, `LAST` or `BEST`.
    criterion: The measure by which the best is chosen.
    honest: Whether clients that attack are left out.
    unfinished: Whether runs that are not finished take part.
    including: How a note tells to let them take part.
  """

  round: str | int = LAST
  criterion: str = "mean"
  honest: bool = False
  unfinished: bool = False
  including: str = "unfinished=True"

  def of(self, run: Run) -> Evaluation | str:
    """Returns the evaluation of a run, or why there is none."""
    if not run.is_finished and not self.unfinished:
      return f"is not finished ({self.including} includes it)"
    rounds = run.evaluations[ROUND]
    if rounds.empty:
      return "has no evaluation yet"
    if self.round == LAST:
      return Evaluation(run, int(rounds.max()), self.honest)
    if self.round == BEST:
      values = measure_over_rounds(run, self.criterion, honest=self.honest)
      measure = measures.MEASURES[self.criterion]
      keys = [measures.badness(measure, value) for value in values]
      best = int(rounds.iloc[int(np.argmin(keys))])
      return Evaluation(run, best, self.honest)
    if self.round in set(rounds):
      return Evaluation(run, int(self.round), self.honest)
    return f"has no evaluation after round {self.round}"


def measure_over_rounds(run: Run, name: str, *, honest: bool) -> pd.Series:
  """Returns a measure in all evaluations of a run, not scaled.

  Args:
    run: The run.
    name: Name of the measure.
    honest: Whether clients that attack are left out.

  Raises:
    RunError: If the run does not have it.
  """
  table, column = run.evaluations, measures.evaluation_column(name)
  if honest and f"{_HONEST}{column}" in table:
    column = f"{_HONEST}{column}"
  if column not in table:
    raise RunError(f"{run.path / 'evaluations.csv'}: has no column {column!r}.")
  return table[column].astype(float)
