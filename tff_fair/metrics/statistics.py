"""Computes statistics over weighted clients, for many weightings at once.

`fairness_summary` and `error_summary` define the statistics; here they are
functions of the accuracies a_k, or errors e_k, and of weights w_k >= 0 with
mean 1. A bootstrap sample of the clients is such a weighting: how often each
client was drawn.
"""

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from tff_fair.metrics.vectors import Vector, mean

# Maps K clients' values, float64[K], and their weights, float64[..., K], to a
# statistic for each weighting, float64[...].
Statistic = Callable[[Vector, Vector], Vector]

TAIL_PERCENTS = (5, 10, 20, 30)
_PERCENTILES = (10, 50, 90)

# NumPy's own arctan may differ between machines in the last digit.
_arctan = np.vectorize(math.atan, otypes=[np.float64])


def tail_size(percent: int, num_clients: int) -> int:
  """Returns the number of clients in the worst or best `percent` of all."""
  return math.ceil(percent * num_clients / 100)


def _relative_deviation(accuracy: Vector, weight: Vector) -> Vector:
  average = mean(accuracy, weight)[..., None]
  # Not a_k / mean - 1, which loses digits if accuracies are nearly equal.
  return (accuracy - average) / np.where(average == 0, 1.0, average)


def _relative_std(accuracy: Vector, weight: Vector) -> Vector:
  deviation = _relative_deviation(accuracy, weight)
  return np.sqrt((deviation**2 * weight).sum(-1) / weight.sum(-1))


def _std(accuracy: Vector, weight: Vector) -> Vector:
  return _relative_std(accuracy, weight) * mean(accuracy, weight)


def _variance(accuracy: Vector, weight: Vector) -> Vector:
  return np.asarray(_std(accuracy, weight) ** 2)


def _min(accuracy: Vector, weight: Vector) -> Vector:
  return np.asarray(np.where(weight > 0, accuracy, np.inf).min(-1))


def _max(accuracy: Vector, weight: Vector) -> Vector:
  return -_min(-accuracy, weight)


def _angle(accuracy: Vector, weight: Vector) -> Vector:
  return np.degrees(_arctan(_relative_std(accuracy, weight)))


def _kl_uniform(accuracy: Vector, weight: Vector) -> Vector:
  average = mean(accuracy, weight)[..., None]
  ratio = accuracy / np.where(average == 0, 1.0, average)
  # 0 log 0 = 0.
  log_ratio = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
  divergence = (ratio * log_ratio * weight).sum(-1) / weight.sum(-1)
  return np.maximum(0.0, divergence)


def _entropy(accuracy: Vector, weight: Vector) -> Vector:
  return math.log(accuracy.size) - _kl_uniform(accuracy, weight)


def _jain(accuracy: Vector, weight: Vector) -> Vector:
  return 1 / (1 + _relative_std(accuracy, weight) ** 2)


def _gini(accuracy: Vector, weight: Vector) -> Vector:
  order = np.argsort(accuracy)
  accuracy, weight = accuracy[order], weight[..., order]
  deviation = _relative_deviation(accuracy, weight)
  total = weight.sum(-1)
  middle = (np.cumsum(weight, -1) - weight / 2) / total[..., None]
  return np.maximum(0.0, 2 * (weight * deviation * middle).sum(-1) / total)


def _mean_over(
  span: Callable[[int], tuple[float, float]], accuracy: Vector, weight: Vector
) -> Vector:
  """Returns the mean accuracy over a span of the ranked clients.

  Accuracies are float64[K], weights float64[..., K] with mean 1. The clients,
  in ascending order of accuracy, divide [0, K] into pieces as long as their
  weights. `span` maps K to the start and the end of a span in [0, K]; each
  client counts by the length of its piece in the span.
  """
  start, stop = span(accuracy.size)
  order = np.argsort(accuracy)
  ends = np.cumsum(weight[..., order], -1)
  starts = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], -1)
  covered = np.minimum(ends, stop) - np.maximum(starts, start)
  return mean(accuracy[order], np.maximum(covered, 0.0))


def _worst(percent: int, num_clients: int) -> tuple[float, float]:
  return 0, tail_size(percent, num_clients)


def _best(percent: int, num_clients: int) -> tuple[float, float]:
  return num_clients - tail_size(percent, num_clients), num_clients


def _percentile(percent: int, num_clients: int) -> tuple[float, float]:
  first = percent / 100 * (num_clients - 1)
  return first, first + 1


def _ranked(
  span: Callable[[int, int], tuple[float, float]], percent: int
) -> Statistic:
  return functools.partial(_mean_over, functools.partial(span, percent))


# The statistics that are means over a span of the ranked clients.
RANKED: Mapping[str, Statistic] = {
  **{f"worst_{q}": _ranked(_worst, q) for q in TAIL_PERCENTS},
  **{f"best_{q}": _ranked(_best, q) for q in TAIL_PERCENTS},
  **{f"percentile_{p}": _ranked(_percentile, p) for p in _PERCENTILES},
}

STATISTICS: Mapping[str, Statistic] = {
  "mean": mean,
  "std": _std,
  "variance": _variance,
  "min": _min,
  "max": _max,
  **RANKED,
  "relative_std": _relative_std,
  "angle": _angle,
  "kl_uniform": _kl_uniform,
  "jain": _jain,
  "gini": _gini,
  "entropy": _entropy,
}

# The upper bounds of statistics of accuracies; statistics without an entry are
# at most 1.
UPPER_BOUNDS: Mapping[str, float] = {
  "std": 0.5,
  "variance": 0.25,
  "angle": 90.0,
  "jain": 1.0,
  "gini": 1.0,
  **dict.fromkeys(
    ("relative_std", "error_relative_std", "kl_uniform", "entropy"), math.inf
  ),
}

# The statistics of errors; the worst clients have the largest errors.
ERROR_STATISTICS: Mapping[str, Statistic] = {
  **STATISTICS,
  **{f"worst_{q}": STATISTICS[f"best_{q}"] for q in TAIL_PERCENTS},
  **{f"best_{q}": STATISTICS[f"worst_{q}"] for q in TAIL_PERCENTS},
}


def _signed_variance(value: Vector, weight: Vector) -> Vector:
  deviation = value - mean(value, weight)[..., None]
  return mean(np.square(deviation), weight)


def _undefined(value: Vector, weight: Vector) -> Vector:
  del value
  return np.full(weight.shape[:-1], math.nan)


# The statistics that depend only on each value's ratio to the mean.
RATIOS = (
  "relative_std",
  "angle",
  "kl_uniform",
  "jain",
  "gini",
  "entropy",
)
# The statistics of values of any sign, of which `RATIOS` are always NaN.
SIGNED_STATISTICS: Mapping[str, Statistic] = {
  **STATISTICS,
  "variance": _signed_variance,
  "std": lambda value, weight: np.sqrt(_signed_variance(value, weight)),
  **dict.fromkeys(RATIOS, _undefined),
}
