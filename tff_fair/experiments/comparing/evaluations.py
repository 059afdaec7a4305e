"""Which evaluation of a run is compared, and what it found."""

import dataclasses

import numpy as np
import pandas as pd

from binaries.flags import compare_flags
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.errors import RunError as UsageError
from tff_fair.experiments.runs import run as runs

_HONEST = "honest/"  # Before columns that leave out the clients that attack.


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """An evaluation of a run.

  Attributes:
    run: The run.
    round: The number of its round.
    honest: Whether clients that attack are left out.
  """

  run: runs.Run
  round: int
  honest: bool

  def measure(self, name: str) -> float:
    """Returns a measure over the clients, not scaled.

    Raises:
      UsageError: If the run does not have it.
    """
    values = measure_over_rounds(self.run, name, honest=self.honest)
    return float(values[self.run.evaluations[runs.ROUND] == self.round].iloc[0])

  def accuracies(self) -> pd.Series:
    """Returns the accuracy of each client by its id, attackers included."""
    table = self.run.client_evaluations
    table = table[table[runs.ROUND] == self.round]
    return table.set_index("client_id")["accuracy"].sort_index()

  def left_out(self) -> set[int]:
    """Returns the clients that are left out because they attack.

    Raises:
      UsageError: If it is not known yet which do.
    """
    if not self.honest or self.run.settings.get("attack", "none") == "none":
      return set()
    clients = self.run.clients
    if clients is None:
      raise UsageError(
        f"--honest: {self.run.path} does not say which clients attack as long "
        "as it is not finished; leave it out."
      )
    return set(clients["client_id"][clients["attacker"]])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
  """Which evaluation of each run is compared.

  Attributes:
    round: The number of its round, `compare_flags.LAST` or `BEST`.
    criterion: The measure by which the best is chosen.
    honest: Whether clients that attack are left out.
    unfinished: Whether runs that are not finished take part.
  """

  round: str | int
  criterion: str
  honest: bool
  unfinished: bool

  def of(self, run: runs.Run) -> Evaluation | str:
    """Returns the evaluation of a run, or why there is none."""
    if not run.is_finished and not self.unfinished:
      return "is not finished (--unfinished includes it)"
    rounds = run.evaluations[runs.ROUND]
    if rounds.empty:
      return "has no evaluation yet"
    if self.round == compare_flags.LAST:
      return Evaluation(run, int(rounds.max()), self.honest)
    if self.round == compare_flags.BEST:
      values = measure_over_rounds(run, self.criterion, honest=self.honest)
      measure = measures.MEASURES[self.criterion]
      keys = [measures.badness(measure, value) for value in values]
      best = int(rounds.iloc[int(np.argmin(keys))])
      return Evaluation(run, best, self.honest)
    if self.round in set(rounds):
      return Evaluation(run, int(self.round), self.honest)
    return f"has no evaluation after round {self.round}"


def measure_over_rounds(run: runs.Run, name: str, *, honest: bool) -> pd.Series:
  """Returns a measure in all evaluations of a run, not scaled.

  Args:
    run: The run.
    name: Name of the measure.
    honest: Whether clients that attack are left out.

  Raises:
    UsageError: If the run does not have it.
  """
  table, column = run.evaluations, measures.evaluation_column(name)
  if honest and f"{_HONEST}{column}" in table:
    column = f"{_HONEST}{column}"
  if column not in table:
    raise UsageError(
      f"{run.path / 'evaluations.csv'}: has no column {column!r}."
    )
  return table[column].astype(float)
