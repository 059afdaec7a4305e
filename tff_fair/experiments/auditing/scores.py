"""The number by which an audit compares clients: its name, unit and sense."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from tff_fair.metrics.statistics import STATISTICS, Statistic

CLIENT, COUNT, CORRECT, R2 = "client", "num_examples", "correct", "r2"


class Score(NamedTuple):
  """A number that each client has.

  Attributes:
    column: Its column in the table of clients.
    title: How headings call it.
    noun: How sentences call it.
    unit: Follows a number, as " %".
    caption: How captions say the unit.
    scale: The factor for tables: 100 for percent.
    digits: Digits after the point in tables.
    higher_is_better: Which way is better.
  """

  column: str
  title: str
  noun: str
  unit: str
  caption: str
  scale: float
  digits: int
  higher_is_better: bool

  def text(self, value: float) -> str:
    """Returns a value as tables have it."""
    return f"{self.scale * value:.{self.digits}f}"

  @property
  def statistics(self) -> Mapping[str, Statistic]:
    """Its statistics over clients; the worst have the largest errors."""
    if self.higher_is_better:
      return STATISTICS
    return {_OTHER_END.get(name, name): f for name, f in STATISTICS.items()}


ACCURACY = Score(
  "accuracy", "Accuracy", "accuracy", " %", "in percent", 100.0, 2, True
)
RMSE = Score("rmse", "RMSE", "RMSE", "", "in units of the label", 1.0, 4, False)
LOSS = Score("loss", "Loss", "loss", "", "means over examples", 1.0, 4, False)

_OTHER_END = {
  name: f"{'best' if end == 'worst' else 'worst'}_{percent}"
  for name in STATISTICS
  for end, _, percent in [name.partition("_")]
  if end in ("worst", "best")
}


def of_table(clients: pd.DataFrame) -> Score:
  """Returns the score of a table of clients, the first that it has."""
  return next(s for s in (ACCURACY, RMSE, LOSS) if s.column in clients)


def shown_name(name: object) -> str:
  """Returns a client's name as a terminal may show it, in one line."""
  return "".join(c if c.isprintable() else "\ufffd" for c in str(name))
