"""Summarizes accuracies or errors over clients.

The statistics are those of the papers this library covers and of LEAF (Caldas
et al., "LEAF: A Benchmark for Federated Settings", 2018). With a_k the accuracy
of client k of K, six statistics depend only on the ratios r_k = a_k / mean:

  relative_std = sqrt(mean((r_k - 1)^2))     angle = arctan(relative_std)
  kl_uniform = mean(r_k log r_k)             entropy = log K - kl_uniform
  jain = 1 / (1 + relative_std^2)
  gini = mean over pairs of |r_k - r_j| / 2

These formulas equal the usual definitions: arccos(sum a / (sqrt(K) ||a||)),
KL(a / sum a || uniform), (sum a)^2 / (K sum a^2), Gini's coefficient and the
Shannon entropy of a / sum a. But the formulas neither lose digits for nearly
equal a_k, nor leave the domain of arccos. If all accuracies are zero, r_k = 1:
the clients are equal, as in the limit of equal accuracies that tend to zero.

Errors of regressions have the same statistics. The worst clients are those with
the largest errors. The six statistics above need nonnegative numbers but no
upper bound, so they apply to errors, too: they show how evenly the errors are
spread, not how large they are.
"""

import math

import numpy as np
import numpy.typing as npt

from tff_fair.metrics import vectors
from tff_fair.metrics.statistics import (
  ERROR_STATISTICS,
  RANKED,
  RATIOS,
  SIGNED_STATISTICS,
  STATISTICS,
)
from tff_fair.metrics.vectors import Vector

# A share of clients up to this is due to rounding.
_ROUNDING = 1e-9


def fairness_summary(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike | None = None
) -> dict[str, float]:
  """Summarizes how evenly accuracy is spread over clients.

  Without `num_examples`, clients have equal weights. With it, their weights are
  w_k = K n_k / sum n in every mean below, and the worst, the best and the
  percentiles are shares of the examples, not of the clients. Only the
  proportions of `num_examples` matter; equal numbers give the same result as
  None.

  Args:
    accuracies: float[K], a_k in [0, 1], in any order.
    num_examples: float[K], n_k > 0, the clients' numbers of examples.

  Returns:
    A dictionary of
      mean: mean of the accuracies; weighted, the accuracy over all examples.
      std, variance: population standard deviation and its square.
      min, max: over the clients, never weighted.
      worst_5, worst_10, worst_20, worst_30: mean of the ceil(q K) lowest
        accuracies, q = 5 %, …; weighted, mean over the share ceil(q K) / K of
        the examples with the lowest accuracies, with the client at the edge
        counted in part.
      best_5, best_10, best_20, best_30: the same for the highest accuracies.
      relative_std: std / mean.
      angle: between the accuracies and the all-ones vector, in degrees, in the
        inner product that the weights define.
      kl_uniform: KL divergence, in nats, of a / sum a from uniform; weighted,
        of the clients' shares of the correct examples from their shares of all
        examples.
      jain: Jain's index, in [1/K, 1] unweighted, 1 where all are equal.
      gini: Gini's coefficient: half the mean difference between two clients,
        over the mean; in [0, 1 - 1/K] unweighted, 0 where all are equal.
      entropy: log K - kl_uniform, in nats; unweighted, the Shannon entropy of
        a / sum a.
      percentile_10, percentile_50, percentile_90: linearly interpolated, as in
        `numpy.percentile`; weighted, the mean over the share 1/K of the
        examples that follows the share (1 - 1/K) p with the lowest accuracies,
        p = 10 %, …; for equal weights, this mean is the interpolation.
    If all accuracies are zero, so are relative_std, angle, kl_uniform and
    gini; jain is 1 and entropy log K.

  Raises:
    ValueError: If an argument is empty, not of rank 1, not finite or out of
      range, or if their lengths differ. Accuracies out of [0, 1] by no more
      than float32 rounding are clipped instead.
  """
  accuracy = vectors.accuracies_per_client("accuracies", accuracies)
  weight = _weights(num_examples, accuracies=accuracy)
  return {
    name: float(statistic(accuracy, weight))
    for name, statistic in STATISTICS.items()
  }


def error_summary(
  errors: npt.ArrayLike, num_examples: npt.ArrayLike | None = None
) -> dict[str, float]:
  """Summarizes how large errors are, and how evenly clients share them.

  The statistics have the names and weights of `fairness_summary`. The worst
  clients are those with the largest errors.

  Args:
    errors: float[K], e_k in [0, inf], in any order, such as root mean squared
      errors in the unit of the label; inf if a model diverged.
    num_examples: float[K], n_k > 0, the clients' numbers of examples.

  Returns:
    A dictionary of
      mean, std, variance, min, max, relative_std, angle, kl_uniform, jain,
        gini, entropy, percentile_10, percentile_50, percentile_90: as
        `fairness_summary` defines them, for errors. `min` is the best client.
      worst_5, worst_10, worst_20, worst_30: mean of the ceil(q K) largest
        errors, q = 5 %, ...
      best_5, best_10, best_20, best_30: mean of the ceil(q K) smallest errors.
    mean, std, min, max, the worst, the best and the percentiles have the unit
    of the errors. If an error is inf, then mean and max are inf, and so are the
    worst, the best and the percentiles that include such a client; std,
    variance and the six statistics of the ratios are NaN.

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, if an
      error is NaN, or if the lengths differ.
  """
  error = vectors.errors_per_client("errors", errors)
  weight = _weights(num_examples, errors=error)
  if np.isinf(error).any():
    return {
      **dict.fromkeys(ERROR_STATISTICS, math.nan),
      **dict.fromkeys(("mean", "max"), math.inf),
      "min": float(error.min()),
      **_ranked_with_infinities(error, weight),
    }
  return {
    name: float(statistic(error, weight))
    for name, statistic in ERROR_STATISTICS.items()
  }


def signed_summary(
  values: npt.ArrayLike, num_examples: npt.ArrayLike | None = None
) -> dict[str, float]:
  """Summarizes values of 1 or less that may be negative, such as R².

  The statistics have the names of `fairness_summary`, and large values are
  good. Ratios to the mean are meaningless for such values, so relative_std,
  angle, kl_uniform, jain, gini and entropy are NaN.

  Args:
    values: float[K], 1 or less, in any order; -inf if a model diverged.
    num_examples: float[K], n_k > 0, the clients' numbers of examples.

  Returns:
    The dictionary of `fairness_summary`.

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, if a
      value is NaN, or if the lengths differ.
  """
  value = vectors.per_client("values", values)
  weight = _weights(num_examples, values=value)
  if np.isinf(value).any():
    # Only `error_summary` handles infinities, so it gets the errors 1 - value.
    errors = error_summary(1 - value, num_examples)
    opposite = {"min": "max", "max": "min"}
    opposite |= {f"percentile_{p}": f"percentile_{100 - p}" for p in (10, 90)}
    return {
      name: math.nan
      if name in RATIOS or name in ("std", "variance")
      else 1 - errors[opposite.get(name, name)]
      for name in SIGNED_STATISTICS
    }
  return {
    name: float(statistic(value, weight))
    for name, statistic in SIGNED_STATISTICS.items()
  }


def _ranked_with_infinities(error: Vector, weight: Vector) -> dict[str, float]:
  infinite = np.isinf(error)
  # Infinite errors become the largest finite error, which keeps the ranks.
  finite = np.where(infinite, error[~infinite].max(initial=0.0), error)
  found = {}
  for name in RANKED:
    statistic = ERROR_STATISTICS[name]
    is_reached = statistic(infinite.astype(np.float64), weight) > _ROUNDING
    found[name] = math.inf if is_reached else float(statistic(finite, weight))
  return found


def _weights(num_examples: npt.ArrayLike | None, **values: Vector) -> Vector:
  """Returns the clients' weights, float64[K], with mean 1.

  `values` is one vector, under its name in error messages; `num_examples` must
  have as many entries.
  """
  (value,) = values.values()
  if num_examples is None:
    return np.ones_like(value)
  counts = vectors.example_counts_per_client(num_examples)
  vectors.check_same_clients(**values, num_examples=counts)
  weight = counts / counts.max()
  return np.asarray(weight / weight.mean())
