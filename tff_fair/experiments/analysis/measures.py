"""Defines the measures of runs: statistics over clients, shown in tables."""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments import number_text
from tff_fair.experiments.analysis.client_results import Clients, Statistic
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, Score
from tff_fair.metrics import vectors
from tff_fair.metrics.statistics import (
  SIGNED_STATISTICS,
  STATISTICS,
  TAIL_PERCENTS,
  tail_size,
)
from tff_fair.metrics.vectors import Vector


class Measure(NamedTuple):
  """A number by which runs are compared."""

  title: str
  higher_is_better: bool
  scale: float = 100.0  # The factor of values in tables: 100 for percent.
  digits: int = 2  # The number of decimals in tables.
  is_signed: bool = False  # Whether positive numbers have a plus sign.
  lowest: float = 0.0  # The bounds of unscaled values.
  highest: float = math.inf
  missing: str = "-"  # The text of a missing value in tables.
  sign: str = ""  # The unit that follows a number, such as " %".
  column: str = ""  # The measure's column in the table of evaluations.
  is_stored: bool = True  # False: it is computed from the clients' rows.
  statistic: Statistic | None = None  # None: the measure has no tests or marks.

  @property
  def span(self) -> float:
    """The largest possible difference of two unscaled values."""
    return self.highest - self.lowest

  @property
  def in_brackets(self) -> str:
    """The unit as a suffix of a title, such as " (%)"; may be empty."""
    return f" ({self.sign.strip()})" if self.sign else ""

  @property
  def words(self) -> str:
    """The title as it is written within a sentence."""
    words = self.title.split()
    # AUC, F1 and R² keep their capitals.
    return " ".join(w if w.upper() == w else w.lower() for w in words)


class Value(NamedTuple):
  """The mean and the standard deviation of a measure over seeds."""

  mean: float
  std: float | None


# A statistic T of `tff_fair.metrics.statistics` takes scores s_k and weights
# w_k, which are 1, or how often a bootstrap drew client k. With n_k test
# examples and accuracies a_k, the measures are computed as follows:
#
#   by examples   T(s, w n)     client k has the weight w_k n_k
#   error         T(1 - a, w)   the share of examples that the model gets wrong
#   loss, R^2     T(losses, w), T(R^2, w)


# The measures of losses and of errors, and their statistics T.
_OF_LOSS = {"loss": "mean", "loss_std": "std", "loss_max": "max"}
_OF_ERROR = {"error": "mean", "error_relative_std": "relative_std"}


def _statistic(name: str, score: Score) -> Statistic:
  """Returns the function that computes a measure over weighted clients."""
  if name in score.statistics:
    of_score = score.statistics[name]
    return lambda clients, weights: of_score(clients.score, weights)
  if name in _OF_LOSS:
    of_loss = SIGNED_STATISTICS[_OF_LOSS[name]]  # A loss may be below 0.
    return lambda clients, weights: of_loss(clients.loss, weights)
  if name in _OF_ERROR:
    of_error = STATISTICS[_OF_ERROR[name]]
    return lambda clients, weights: of_error(1 - clients.score, weights)
  if name == "weighted":
    return lambda clients, weights: vectors.mean(
      clients.score, weights * clients.num_examples
    )
  by_client = _statistic(name.removeprefix("weighted_"), score)
  return lambda clients, weights: by_client(
    clients, _scaled_to_mean_1(weights * clients.num_examples)
  )


def _extra_statistic(
  score: str, statistic: str, clients: Clients, weights: Vector
) -> Vector:
  """Returns a statistic of an extra score over the clients that have it."""
  values = clients.extra_columns[score]
  if not (known := ~np.isnan(values)).any():
    return np.full(weights.shape[:-1], math.nan)
  return STATISTICS[statistic](
    values[known], _scaled_to_mean_1(weights[..., known])
  )


def _scaled_to_mean_1(weights: Vector) -> Vector:
  """Returns weights scaled to mean 1, as statistics require."""
  return np.asarray(weights / weights.mean(-1, keepdims=True))


@functools.lru_cache(maxsize=32)
def by_name(score: Score) -> Mapping[str, Measure]:
  """Returns the measures of runs that have this score, by name."""
  of_client = _of_client(score)
  relative = Measure("", False, 1.0, 4)
  spread = of_client._replace(title="Std", higher_is_better=False)
  shown = {
    "mean": of_client._replace(title="Mean"),
    "weighted": of_client._replace(title="Weighted mean"),
    "std": spread,
    "variance": Measure("Variance", False, score.scale**2, score.digits),
    "min": of_client._replace(title="Min"),
    "max": of_client._replace(title="Max"),
    **{
      f"{end}_{q}": of_client._replace(title=f"{end.capitalize()} {q} %")
      for end in ("worst", "best")
      for q in TAIL_PERCENTS
    },
    "percentile_10": of_client._replace(title="Percentile 10"),
    "percentile_50": of_client._replace(title="Median"),
    "percentile_90": of_client._replace(title="Percentile 90"),
    "relative_std": relative._replace(title="Relative std"),
    "angle": Measure("Angle (°)", False, 1.0),
    "kl_uniform": relative._replace(title="KL to uniform"),
    "entropy": Measure("Entropy", True, 1.0, 4),
    "jain": Measure("Jain's index", True, 1.0, 4),
    "gini": Measure("Gini coefficient", False, 1.0, 4),
    "weighted_std": spread._replace(title="Weighted std"),
    **{
      f"weighted_worst_{q}": of_client._replace(title=f"Weighted worst {q} %")
      for q in TAIL_PERCENTS
    },
    "loss": relative._replace(title="Loss"),
    "loss_std": relative._replace(title="Loss std"),
    "loss_max": relative._replace(title="Largest loss"),
  }
  if score.is_accuracy:
    error = of_client._replace(title="Error", higher_is_better=False)
    shown |= {
      "error": error,
      "error_relative_std": relative._replace(title="Relative std of error"),
      "weighted_error": error._replace(title="Weighted error"),
      "weighted_error_relative_std": relative._replace(
        title="Weighted relative std of error"
      ),
    }
  found = {
    name: measure._replace(
      lowest=low,
      highest=high,
      column=_column(name, score),
      is_stored=not name.startswith(("weighted_", "error")),
      statistic=_statistic(name, score),
    )
    for name, measure in shown.items()
    for low, high in [_bounds(name, score)]
  }
  for other in map(BY_NAME.__getitem__, score.extra_scores):
    found |= {
      name: _of_client(other)._replace(
        title=f"{title} {other.noun}",
        column=f"{other.name}/{of_values}",
        statistic=functools.partial(_extra_statistic, other.name, of_values),
      )
      for name, (title, of_values) in extra_measures(other).items()
    }
  return found


def _column(name: str, score: Score) -> str:
  """Returns the name of a measure's column in tables of evaluations."""
  if name in _OF_LOSS:
    return f"loss/{_OF_LOSS[name]}"
  of_score = score.name
  return f"{of_score}_weighted" if name == "weighted" else f"{of_score}/{name}"


def _of_client(score: Score) -> Measure:
  """Returns a template for the measures that are in a score's unit."""
  return Measure(
    "",
    score.higher_is_better,
    score.scale,
    score.digits,
    lowest=score.lowest,
    highest=score.highest,
    sign=score.sign,
  )


def extra_measures(score: Score) -> Mapping[str, tuple[str, str]]:
  """Returns the titles and statistics of an extra score's measures, by name."""
  title, worst = (
    ("Lowest", "min") if score.higher_is_better else ("Largest", "max")
  )
  return {
    score.name: ("Mean", "mean"),
    f"{score.name}_median": ("Median", "percentile_50"),
    f"{score.name}_{worst}": (title, worst),
  }


def _bounds(name: str, score: Score) -> tuple[float, float]:
  if name in _OF_LOSS:  # A loss may be below 0, but not its std.
    return 0.0 if name == "loss_std" else -math.inf, math.inf
  return score.bounds(name.removeprefix("weighted_"))


MEASURES: Mapping[str, Measure] = by_name(ACCURACY)
# The names of all measures; a run has only the measures of its own scores.
NAMES = (
  *MEASURES,
  *(name for s in BY_NAME.values() for name in extra_measures(s)),
)


def check(name: str, argument: str) -> None:
  """Raises a `FieldError` for `argument` if no measure is called `name`."""
  declared.check_choice(argument, name, NAMES)


def find(
  name: str, score: Score, whose: object, argument: str = "columns"
) -> Measure:
  """Returns the measure `name` of runs that have this score.

  Raises a `FieldError` for `argument` if there is none; its message begins with
  `whose`: a folder, a task, or "the search".
  """
  found = by_name(score).get(name)
  if found is None:
    raise FieldError(
      argument,
      f"{whose}: its clients have {score.plural}, and no such measure; choose "
      f"one of {', '.join(by_name(score))}.",
      value=name,
    )
  return found


def changes(score: Score) -> Mapping[str, Measure]:
  """Returns the measures of changes between two runs, by name."""
  change = Measure(
    "by", score.higher_is_better, score.scale, score.digits, is_signed=True
  )
  return {
    "suffering_improved_share": Measure("Suffering improved", True),
    "suffering_mean_change": change,
    "well_performing_degraded_share": Measure(
      "Well-performing degraded", False
    ),
    "well_performing_mean_change": change,
    "mean_change": change._replace(title="Mean change"),
  }


def tail_sizes(names: Iterable[str], num_clients: int) -> str:
  """Returns the tail sizes of the measures in `names` as text; may be empty.

  For example "10 % = 1 of 3 clients".
  """
  percents = {
    int(percent)
    for kind, _, percent in (name.partition("_") for name in names)
    if kind in ("worst", "best")
  }
  return ", ".join(
    f"{percent} % = {tail_size(percent, num_clients)} of {num_clients} clients"
    for percent in sorted(percents)
  )


def clients_of(table: pd.DataFrame, score: Score) -> Clients:
  """Returns an evaluation's results, without clients that lack the score."""
  if score.needs:
    table = table[table[score.name].notna()]

  def column(name: str) -> Vector:
    return table[name].to_numpy(np.float64)

  return Clients(
    table["client_id"].to_numpy(np.int64),
    column(score.name),
    column("loss"),
    column("num_examples"),
    {name: column(name) for name in score.extra_scores},
  )


def of_equal(measure: Measure, clients: Clients) -> float:
  """Returns a measure's value over equally weighted clients, before scaling."""
  assert measure.statistic is not None
  weights = np.ones_like(clients.score)
  with np.errstate(invalid="ignore"):  # Losses and errors may be infinite.
    return float(measure.statistic(clients, weights))


def of_clients(
  clients: pd.DataFrame, score: Score = ACCURACY
) -> dict[str, float]:
  """Returns an evaluation's values of all measures by name, before scaling."""
  numbered = clients.assign(client_id=np.arange(len(clients)))
  of_all = clients_of(numbered, score)
  if len(clients) and not of_all.ids.size:  # No client has the score.
    return dict.fromkeys(by_name(score), math.nan)
  found = score.summarize(of_all.score)
  others = {n: m for n, m in by_name(score).items() if n not in found}
  return found | {n: of_equal(m, of_all) for n, m in others.items()}


def over_seeds(measure: Measure, values: Sequence[float]) -> Value:
  """Returns the mean and std of `values`, one per seed, scaled for a table."""
  scaled = measure.scale * np.asarray(values, np.float64)
  with np.errstate(invalid="ignore"):
    std = float(scaled.std(ddof=1)) if scaled.size > 1 else None
    return Value(float(scaled.mean()), std)


def value_text(measure: Measure, value: Value) -> str:
  """Returns a value as tables show it, such as "12.30 ± 0.45"."""
  if math.isnan(value.mean):
    return measure.missing
  sign = "+" if measure.is_signed else ""
  text = number_text.fixed(value.mean, measure.digits, sign)
  if value.std is None or math.isnan(value.std):  # Infinite values give NaN.
    return text
  return f"{text} ± {number_text.fixed(value.std, measure.digits)}"


def difference_text(
  measure: Measure, estimate: float, low: float, high: float
) -> str:
  """Returns a difference and its interval, such as "+1.20 [-0.30, +2.70]"."""
  signed = measure._replace(is_signed=True)
  text, *ends = (
    value_text(signed, Value(number, None)) for number in (estimate, low, high)
  )
  return text if math.isnan(low) else f"{text} [{', '.join(ends)}]"


def sort_key(measure: Measure, mean: float) -> float:
  """Returns a key that sorts the best mean first, NaN and infinity last."""
  if not math.isfinite(mean):
    return math.inf
  return -mean if measure.higher_is_better else mean
