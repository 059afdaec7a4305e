"""The score of a task: the number by which its clients are compared.

Where labels are classes, that is the accuracy; where they are numbers, the root
mean squared error in the units of the label, RMSE, with R² beside it:

  RMSE_k = sqrt(SSE_k / n_k)        R²_k = 1 - SSE_k / SST_k

SSE_k is the sum of squared errors over client k's n_k test examples, and SST_k
that of the deviations of its test labels from their mean. A client whose labels
are all equal has no R².

Evaluations, tables, plots and reports know a score, and nothing else of the
kind of a task.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from tff_fair import metrics
from tff_fair.metrics import comparison, statistics
from tff_fair.metrics.statistics import Statistic
from tff_fair.metrics.vectors import Vector

R2 = "r2"  # The column beside the errors.
_SHOWN_DIGITS = 4  # Of numbers whose size the task decides.
_MOST_DECIMALS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Score:
  """A number by which the clients of a task are compared.

  Attributes:
    name: Its column in the tables of a run.
    noun: How sentences call it.
    plural: The same of several clients.
    highest: The largest value it may have; the smallest is 0.
    higher_is_better: Which way is better.
    scale: The factor for tables: 100 for percent.
    digits: Decimals in tables.
    sign: Follows a number of tables, as " %".
    in_unit: How captions say the unit, as "in percent".
    worst: How charts call the worst client.
    best: How they call the best, after that.
    statistics: Its statistics over clients, by name.
    summarize: Returns all of them; takes one value per client.
    compare: Compares two runs, client by client.
    tie: Returns by how much the values of a client may differ and be equal.
    beside: Columns beside it, which some clients may not have.
  """

  name: str
  noun: str
  plural: str
  highest: float
  higher_is_better: bool
  scale: float
  digits: int
  sign: str
  in_unit: str
  worst: str
  best: str
  statistics: Mapping[str, Statistic]
  summarize: Callable[[Vector], dict[str, float]]
  compare: Callable[[Vector, Vector], dict[str, float]]
  tie: Callable[[Vector, Vector], Vector]
  beside: tuple[str, ...] = ()

  @property
  def title(self) -> str:
    """Its name at the beginning of a sentence."""
    return self.noun[0].upper() + self.noun[1:]

  @property
  def worst_noun(self) -> str:
    """How sentences call the worst value."""
    return f"{'lowest' if self.higher_is_better else 'largest'} {self.noun}"

  @property
  def in_brackets(self) -> str:
    """The sign of its unit after a title, as " (%)"; may be empty."""
    return f" ({self.sign.strip()})" if self.sign else ""

  @property
  def short_digits(self) -> int:
    """Decimals where there is little room."""
    return max(self.digits - 1, 0)

  @property
  def limit(self) -> float:
    """The largest number in tables."""
    return self.scale * self.highest

  def is_better(self, value: float, other: float) -> bool:
    """Returns whether a value is better than another; NaN is not."""
    return value > other if self.higher_is_better else value < other

  def fitting(self, smallest: float) -> "Score":
    """Returns the score with as many decimals as its numbers need.

    Args:
      smallest: The smallest number to show well, not scaled.
    """
    if math.isfinite(self.highest) or not 0 < smallest < math.inf:
      return self
    decimals = _SHOWN_DIGITS - 1 - math.floor(math.log10(smallest))
    return dataclasses.replace(
      self, digits=min(max(decimals, 0), _MOST_DECIMALS)
    )

  def text(self, value: float) -> str:
    """Returns a value for a line on the screen, as "90.1%" or "53.82"."""
    if math.isfinite(self.highest):
      return f"{value:.1%}"
    return f"{value:.{_SHOWN_DIGITS}g}"

  def number(self, value: float) -> str:
    """Returns a value as tables have it, without its sign."""
    return f"{self.scale * value:.{self.digits}f}"

  def describe(self, found: Mapping[str, float]) -> str:
    """Returns an evaluation for a line on the screen.

    Args:
      found: `mean`, `std` and `worst_10` over clients.
    """
    return (
      f"{self.noun} {self.text(found['mean'])}, std {self.text(found['std'])}, "
      f"worst 10% {self.text(found['worst_10'])}"
    )


ACCURACY = Score(
  name="accuracy",
  noun="accuracy",
  plural="accuracies",
  highest=1.0,
  higher_is_better=True,
  scale=100.0,
  digits=2,
  sign=" %",
  in_unit="in percent",
  worst="least accurate",
  best="most",
  statistics=statistics.STATISTICS,
  summarize=metrics.fairness_summary,
  compare=metrics.compare_clients,
  tie=comparison.accuracy_tie,
)

RMSE = Score(
  name="rmse",
  noun="RMSE",
  plural="RMSEs",
  highest=math.inf,
  higher_is_better=False,
  scale=1.0,
  digits=4,
  sign="",
  in_unit="in units of the label",
  worst="largest RMSE",
  best="smallest",
  statistics=statistics.ERROR_STATISTICS,
  summarize=metrics.error_summary,
  compare=metrics.compare_errors,
  tie=comparison.error_tie,
  beside=(R2,),
)

BY_NAME: Mapping[str, Score] = {score.name: score for score in (ACCURACY, RMSE)}


def summarize_beside(values: Vector) -> dict[str, float]:
  """Summarizes a column beside a score, over the clients that have it.

  Args:
    values: float[K] below any bound, such as R²; NaN is no value.

  Returns:
    `mean`, `std`, `min`, `max` and `percentile_50`, the median; NaN where no
    client has a value.
  """
  known = values[~np.isnan(values)]
  if not known.size:
    known = np.array([math.nan])
  with np.errstate(invalid="ignore"):  # R² of a model that diverged is -inf.
    return {
      "mean": float(known.mean()),
      "std": float(known.std()),
      "min": float(known.min()),
      "max": float(known.max()),
      "percentile_50": float(np.median(known)),
    }
