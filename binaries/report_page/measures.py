"""The columns of the summary: measures at the end of runs, and their ranks."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from binaries.report_page.methods import Method
from binaries.report_page.scale import number_text
from binaries.runs import ROUND, Run

NBSP = "\N{NO-BREAK SPACE}"


@dataclasses.dataclass(frozen=True)
class Measure:
  """A column.

  Attributes:
    title: Its head.
    column: Its column in the table of evaluations.
    factor: From the table's scale to the shown one.
    decimals: Of the shown values.
    more_is_better: Whether the largest is the best; None where none is.
  """

  title: str
  column: str
  factor: float = 100
  decimals: int = 2
  more_is_better: bool | None = True

  def of_run(self, run: Run) -> float:
    """Returns the value at the last evaluation; NaN where there is none."""
    table = run.evaluations
    if self.column not in table or table.empty:
      return math.nan
    last = table.sort_values(ROUND)[self.column].iloc[-1]
    return self.factor * float(last)

  def of_method(self, method: Method) -> "Value":
    """Returns the value of a method."""
    values = [self.of_run(run) for run in method.runs]
    return over_seeds(values, self.decimals)


@dataclasses.dataclass(frozen=True)
class Value:
  """A mean over seeds.

  Attributes:
    mean: The mean.
    std: Sample standard deviation; None with one seed.
    decimals: How exactly it is shown.
  """

  mean: float
  std: float | None
  decimals: int

  @property
  def mean_text(self) -> str:
    """The mean as it is read."""
    return _text(self.mean, self.decimals)

  @property
  def std_text(self) -> str | None:
    """The standard deviation as it is read."""
    return None if self.std is None else _text(self.std, self.decimals)


def _accuracy(title: str, name: str, **settings: Any) -> Measure:
  return Measure(title, f"accuracy/{name}", **settings)


ACCURACY = (
  _accuracy("Mean", "mean"),
  _accuracy("Std", "std", more_is_better=False),
  *(_accuracy(f"Worst {q}{NBSP}%", f"worst_{q}") for q in (5, 10, 20, 30)),
  *(_accuracy(f"Best {q}{NBSP}%", f"best_{q}") for q in (5, 10, 20, 30)),
)
MORE_ACCURACY = (
  Measure("Mean by examples", "accuracy_weighted"),
  _accuracy("Variance (%²)", "variance", factor=100**2, more_is_better=False),
  _accuracy("Min", "min"),
  _accuracy("Percentile 10", "percentile_10"),
  _accuracy("Median", "percentile_50"),
  _accuracy("Percentile 90", "percentile_90"),
  _accuracy("Max", "max"),
)
UNIFORMITY_AND_LOSS = (
  *(
    _accuracy(title, name, factor=1, decimals=decimals, more_is_better=more)
    for title, name, decimals, more in (
      ("Relative std", "relative_std", 4, False),
      ("Angle (°)", "angle", 2, False),
      ("KL to uniform", "kl_uniform", 4, False),
      ("Entropy", "entropy", 4, True),
      ("Jain’s index", "jain", 4, True),
    )
  ),
  Measure("Mean loss", "loss/mean", 1, 4, more_is_better=False),
  Measure("Largest loss", "loss/max", 1, 4, more_is_better=False),
)


def over_seeds(values: Sequence[float], decimals: int = 2) -> Value:
  """Returns mean and std of values, one for each seed."""
  with np.errstate(invalid="ignore"):
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Value(float(np.mean(values)), std, decimals)


def ranks(
  values: Sequence[Value], more_is_better: bool | None
) -> list[int | None]:
  """Returns 1 for the best and 2 for the second best as they are shown.

  Values that look the same have the same rank; None is for all others, and for
  all where there is nothing to compare.
  """
  if more_is_better is None:
    return [None] * len(values)
  shown = [round(v.mean, v.decimals) for v in values]
  different = sorted(
    {v for v in shown if math.isfinite(v)}, reverse=more_is_better
  )
  if len(different) < 2:
    return [None] * len(values)
  places = {value: place for place, value in enumerate(different[:2], start=1)}
  return [places.get(value) for value in shown]


def _text(value: float, decimals: int) -> str:
  if math.isnan(value):
    return "–"
  if math.isinf(value):
    return "∞" if value > 0 else "−∞"
  return number_text(value, decimals)
