"""Defines the scores by which the clients of a task are compared.

By default, the score is the accuracy if labels are classes, and the root mean
squared error (RMSE) in units of the label if labels are numbers. Over the n_k
test examples of client k, let SSE_k be the sum of squared errors, SAE_k the sum
of absolute errors, and SST_k the sum of squared deviations of the labels from
their mean. Then

  RMSE_k = sqrt(SSE_k / n_k)    MAE_k = SAE_k / n_k    R²_k = 1 - SSE_k / SST_k

If all labels of a client are equal, the client does not have an R².
`tff_fair.metrics.class_scores` defines the scores of classes, and which clients
do not have them.

A run has one score; its `measures` are further scores. Evaluations, tables,
plots and reports use only attributes of `Score`, not the kind of the task.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_fair import metrics
from tff_fair.experiments import number_text
from tff_fair.metrics import comparison, statistics
from tff_fair.metrics.intervals import Interval
from tff_fair.metrics.statistics import Statistic
from tff_fair.metrics.vectors import Vector

_SHOWN_DIGITS = 4  # Significant digits of scores that are not in percent.
_MOST_DECIMALS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Score:
  """A number by which the clients of a task are compared."""

  name: str  # The name of the score's column in the tables of a run.
  noun: str  # The score's name in sentences.
  plural: str  # The score's name in sentences about several clients.
  highest: float  # The largest possible value.
  higher_is_better: bool  # Whether a larger value is better.
  scale: float  # The factor for tables: 100 for percent.
  digits: int  # The number of decimals in tables.
  sign: str  # The unit sign after a number in tables, such as " %".
  in_unit: str  # The unit in captions, such as "in percent".
  worst: str  # The name of the worst client in charts.
  best: str  # The name of the best client in charts, shown after `worst`.
  statistics: Mapping[str, Statistic]  # The statistics over clients, by name.
  # Computes all statistics from one value per client.
  summarize: Callable[[Vector], dict[str, float]]
  # Compares two runs, client by client.
  compare: Callable[[Vector, Vector], dict[str, float]]
  # Returns the differences up to which a client's two values count as a tie.
  tie: Callable[[Vector, Vector], Vector]
  lowest: float = 0.0  # The smallest possible value.
  # The test examples that a client needs to have the score; may be empty.
  needs: str = ""
  is_for_classes: bool = True  # Whether labels are classes.
  # Names of further scores, which have columns of their own.
  extra_scores: tuple[str, ...] = ()

  @property
  def title(self) -> str:
    """The score's name at the beginning of a sentence."""
    return self.noun[0].upper() + self.noun[1:]

  @property
  def is_accuracy(self) -> bool:
    """Whether the score is the accuracy."""
    return self.name == ACCURACY.name

  @property
  def worst_noun(self) -> str:
    """The name of the worst value in sentences."""
    return f"{'lowest' if self.higher_is_better else 'largest'} {self.noun}"

  @property
  def in_brackets(self) -> str:
    """The unit after a title, such as " (%)"; may be empty."""
    return f" ({self.sign.strip()})" if self.sign else ""

  @property
  def short_digits(self) -> int:
    """The number of decimals where space is short."""
    return max(self.digits - 1, 0)

  @property
  def limit(self) -> float:
    """The largest possible value, in the unit of tables."""
    return self.scale * self.highest

  def is_better(self, value: float, other: float) -> bool:
    """Returns whether a value is better than another; NaN is never better."""
    return value > other if self.higher_is_better else value < other

  def with_fitting_digits(self, smallest: float) -> "Score":
    """Returns the score with enough decimals to show values like `smallest`.

    A bounded score, such as accuracy, keeps its decimals.
    """
    if math.isfinite(self.highest) or not 0 < smallest < math.inf:
      return self
    decimals = _SHOWN_DIGITS - 1 - math.floor(math.log10(smallest))
    return dataclasses.replace(
      self, digits=min(max(decimals, 0), _MOST_DECIMALS)
    )

  def bounds(self, name: str) -> tuple[float, float]:
    """Returns the smallest and the largest possible value of a statistic."""
    # Popoviciu's inequality: a standard deviation is at most half the range.
    half = (self.highest - self.lowest) / 2
    largest = {**statistics.UPPER_BOUNDS, "std": half, "variance": half**2}
    if name in largest:
      return 0.0, largest[name]
    return self.lowest, self.highest

  def intervals(
    self,
    values: Vector,
    num_examples: Vector | None,
    names: Sequence[str],
    *,
    of_other_clients: bool = True,
  ) -> dict[str, Interval]:
    """Returns the finite 95 % confidence intervals of the statistics `names`.

    They hold for other clients from the same population or, without
    `of_other_clients`, for the same clients with other test examples.
    """
    if not of_other_clients and num_examples is None:
      return {}
    if self.is_accuracy:
      found = metrics.fairness_intervals(
        values, num_examples, names, of_other_clients=of_other_clients
      )
    else:
      drawn = metrics.bootstrap_intervals(
        {name: self.statistics[name] for name in names}, values
      )
      found = {
        name: Interval(*np.clip(ends, *self.bounds(name)).tolist())
        for name, ends in drawn.items()
      }
    return {n: ends for n, ends in found.items() if np.isfinite(ends).all()}

  def text(self, value: float) -> str:
    """Returns a value for a line on the screen, such as "90.1%" or "53.82"."""
    if self.sign:
      return f"{value:.1%}"
    return f"{value:.{_SHOWN_DIGITS}g}"

  def number(self, value: float) -> str:
    """Returns a value as text for tables, without the unit sign."""
    return number_text.fixed(self.scale * value, self.digits)

  def describe(self, found: Mapping[str, float]) -> str:
    """Returns an evaluation's statistics for a line on the screen."""
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
  is_for_classes=False,
  extra_scores=("r2",),
)


def _derive_score(
  base: Score, name: str, noun: str, plural: str = "", **changes: Any
) -> Score:
  """Returns a score like `base` (ACCURACY or RMSE), with `changes`."""
  worst, best = (
    ("lowest", "highest") if base.higher_is_better else ("largest", "smallest")
  )
  return dataclasses.replace(
    base,
    name=name,
    noun=noun,
    plural=plural or f"{noun}s",
    worst=f"{worst} {noun}",
    best=best,
    extra_scores=(),
    **changes,
  )


# Changes for a score from 0 to 1 that is not shown in percent.
_PLAIN: Mapping[str, Any] = {
  "scale": 1.0,
  "digits": 4,
  "sign": "",
  "in_unit": "from 0 to 1",
}
_OF_CLASSES: Mapping[str, Any] = {
  "is_for_classes": True,
  "in_unit": "0 at best",
}
_OWN_EXAMPLE = {"needs": "an example of the class"}
_TWO_CLASSES = {"needs": "examples of two classes"}

_ALL = (
  ACCURACY,
  _derive_score(
    ACCURACY, "balanced_accuracy", "balanced accuracy", "balanced accuracies"
  ),
  _derive_score(ACCURACY, "auc", "AUC", **_PLAIN, **_TWO_CLASSES),
  _derive_score(
    ACCURACY, "average_precision", "average precision", **_PLAIN, **_TWO_CLASSES
  ),
  _derive_score(ACCURACY, "f1", "F1", "values of F1", **_PLAIN, **_OWN_EXAMPLE),
  _derive_score(ACCURACY, "precision", "precision", **_OWN_EXAMPLE),
  _derive_score(ACCURACY, "recall", "recall", **_OWN_EXAMPLE),
  _derive_score(RMSE, "brier", "Brier score", **_OF_CLASSES),
  _derive_score(RMSE, "log_loss", "log loss", "log losses", **_OF_CLASSES),
  _derive_score(RMSE, "calibration_error", "calibration error", **_OF_CLASSES),
  RMSE,
  _derive_score(RMSE, "mae", "MAE"),
  _derive_score(
    ACCURACY,
    "r2",
    "R²",
    "values of R²",
    **{**_PLAIN, "in_unit": "1 at best"},
    lowest=-math.inf,
    needs="labels that differ",
    is_for_classes=False,
    statistics=statistics.SIGNED_STATISTICS,
    summarize=metrics.signed_summary,
    compare=metrics.compare_signed,
  ),
)
BY_NAME: Mapping[str, Score] = {score.name: score for score in _ALL}


@functools.cache
def with_extra_scores(name: str, extra_scores: tuple[str, ...]) -> Score:
  """Returns the score called `name`, with `extra_scores` as further columns."""
  score = BY_NAME[name]
  if score.extra_scores == extra_scores:
    return score
  return dataclasses.replace(score, extra_scores=extra_scores)


def summarize_extra(values: Vector) -> dict[str, float]:
  """Summarizes a column, float[clients], over the clients that have a value.

  Values, such as R², may have any size and sign; NaN means that a client does
  not have a value. Returns `mean`, `std`, `min`, `max`, `percentile_50` (NaN if
  no client has a value) and `left_out`, the number of clients without a value.
  """
  left_out = float(np.isnan(values).sum())
  known = values[~np.isnan(values)]
  if not known.size:
    known = np.array([math.nan])
  with np.errstate(invalid="ignore"):  # The R² of a diverged model is -inf.
    return {
      "mean": float(known.mean()),
      "std": float(known.std()),
      "min": float(known.min()),
      "max": float(known.max()),
      "percentile_50": float(np.median(known)),
      "left_out": left_out,
    }
