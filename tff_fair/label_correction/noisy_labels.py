"""Finds clients with wrong labels, estimates how many are wrong, and relabels.

FedCorr (Xu et al., CVPR 2022), Section 3, in NumPy:

    noisy clients   the upper of two groups of clients, by the mean local
                    intrinsic dimension (LID) of a client's predictions, summed
                    over iterations
    mu_k            |D_k^n| / |D_k|, where D_k^n is the upper of two groups of
                    client k's examples D_k, by loss
    beta mu_k ||w - w_k||^2    the proximal term of client k in training
    relabelled      of the pi |D_k^n| examples with the largest losses, those
                    for which the global model predicts a class with a
                    confidence of at least theta
"""

import warnings

import numpy as np
from scipy.spatial import distance

NEIGHBORS = 20  # The number of neighbours, k in the paper.
# Rows whose distances are computed at a time: all distances of a client with
# 100,000 examples would need 80 GB.
_ROWS_AT_A_TIME = 256
_LEAST_PROBABILITY = np.finfo(np.float32).tiny
_ROUNDING = 1e-9  # Tolerance of a product that should be a whole number.
_LEAST_VARIANCE = 1e-6  # The least variance of a group, after standardization.
_TOLERANCE = 1e-8  # EM stops when the mean log-likelihood grows by less.
_MOST_STEPS = 1000


def noisy_clients(cumulative_dimension: np.ndarray) -> np.ndarray:
  """Returns which clients are noisy, bool[clients], from their dimensions.

  `cumulative_dimension`, float64[clients], sums each client's mean LID over the
  iterations so far. A client without an estimate (NaN) is not noisy.
  """
  return is_in_upper_group(
    np.where(np.isfinite(cumulative_dimension), cumulative_dimension, np.nan)
  )


def losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns the cross entropy of each example, float64[n].

  Probabilities are float[n, classes]. If the label's probability is NaN, so is
  the loss.
  """
  of_labels = probabilities[np.arange(len(labels)), labels].astype(np.float64)
  return np.abs(-np.log(np.maximum(of_labels, _LEAST_PROBABILITY)))


def noise_level(example_losses: np.ndarray) -> float:
  """Returns a noisy client's estimated share of wrong labels, mu_k."""
  if not len(example_losses):
    return 0.0
  return float(is_in_upper_group(example_losses).mean())


def proximal_weights(levels: np.ndarray, beta: float) -> np.ndarray:
  """Returns mu for each client's term mu/2 ||w - theta||^2, float32[clients].

  FedCorr's term is beta mu_k ||w - theta||^2; `levels` holds each mu_k.
  """
  return (2 * beta * levels).astype(np.float32)


def suspects(
  example_losses: np.ndarray, level: float, share: float
) -> np.ndarray:
  """Returns which examples a noisy client may relabel, bool[n].

  These are the pi mu_k n examples with the largest losses, where pi is `share`
  and mu_k is `level`, the estimated share of wrong labels. In a tie, earlier
  examples come first; an example with a NaN loss is never chosen.
  """
  in_upper_group = round(len(example_losses) * level)
  number = int(in_upper_group * share + _ROUNDING)
  order = np.argsort(
    -np.nan_to_num(example_losses, nan=-np.inf, posinf=np.inf), kind="stable"
  )
  found = np.zeros(len(example_losses), bool)
  found[order[:number]] = True
  return found & ~np.isnan(example_losses)


def relabel(
  labels: np.ndarray,
  probabilities: np.ndarray,
  confidence: float,
  eligible: np.ndarray | None = None,
) -> np.ndarray:
  """Returns labels, int[n], some replaced by confident predictions.

  An example's prediction is the class with the largest of its `probabilities`,
  float[n, classes]; it is confident if that probability is at least theta,
  `confidence`. `eligible`, bool[n], marks the examples that may change; None
  marks all.
  """
  if not len(labels):
    return labels.copy()
  is_sure = probabilities.max(axis=1) >= confidence  # False for NaN.
  if eligible is not None:
    is_sure &= eligible
  predicted = probabilities.argmax(axis=1).astype(labels.dtype)
  return np.where(is_sure, predicted, labels)


# The functions below compute the local intrinsic dimension (LID) of a client's
# predictions.
#
# Amsaleg et al., "Estimating Local Intrinsic Dimensionality" (KDD 2015).
# FedCorr uses it to find noisy clients: a model that learns wrong labels
# spreads its predictions over a space of more dimensions.
#
#     LID(x) = -( 1/k sum_{i=1..k} log(r_i / r_k) )^-1
#
# r_1 <= ... <= r_k are the distances from x to its k nearest neighbours in the
# same set. Choices made here, if the formula has no value:
#
# - A neighbour at distance 0 makes LID(x) 0, the limit of the formula.
# - Neighbours that are all at the same distance, but not 0, would make LID(x)
#   infinite: such an x has no estimate, and a client's mean excludes it.
# - In a set of k examples or fewer, all other examples are neighbours.


def local_dimensions(
  predictions: np.ndarray, neighbors: int = NEIGHBORS
) -> np.ndarray:
  """Returns the LID, float64[n], of each row of `predictions`, float[n, d].

  `neighbors`, 2 or more, is k. A row without an estimate has the LID NaN: if
  there are fewer than three rows, or if its neighbours are all at the same
  distance above 0. If any number is not finite, all LIDs are NaN.
  """
  points = np.asarray(predictions, np.float64)
  n = len(points)
  k = min(neighbors, n - 1)
  if k < 2 or not np.isfinite(points).all():
    return np.full(n, np.nan)
  return np.concatenate(
    [
      _dimensions_from_distances(_nearest_distances(points, start, k))
      for start in range(0, n, _ROWS_AT_A_TIME)
    ]
  )


def mean_dimension(
  predictions: np.ndarray, neighbors: int = NEIGHBORS
) -> float:
  """Returns the mean LID of a client's predictions; NaN if none has an LID."""
  found = local_dimensions(predictions, neighbors)
  found = found[~np.isnan(found)]
  return float(found.mean()) if found.size else float("nan")


def _nearest_distances(points: np.ndarray, start: int, k: int) -> np.ndarray:
  """Returns the k least distances to other points, ascending, float64[m, k].

  The m rows are for up to `_ROWS_AT_A_TIME` points from index `start` on.
  """
  some = points[start : start + _ROWS_AT_A_TIME]
  found = distance.cdist(some, points)
  own = np.arange(len(some))
  found[own, start + own] = np.inf
  return np.sort(np.partition(found, k - 1, axis=1)[:, :k], axis=1)


def _dimensions_from_distances(radii: np.ndarray) -> np.ndarray:
  """Returns m LIDs from ascending distances to neighbours, float64[m, k]."""
  furthest = radii[:, -1:]
  with np.errstate(divide="ignore", invalid="ignore"):
    mean_log = np.log(radii / furthest).mean(axis=1)
    found = -1 / mean_log  # A distance of 0 has log -inf, so the LID is 0.
  found[furthest[:, 0] == 0] = 0.0
  found[mean_log == 0] = np.nan
  return found + 0.0  # Turns -0.0 into 0.0.


# The functions below split numbers into a lower and an upper group.
#
# A mixture of two normal distributions in one dimension, fitted by
# scikit-learn's EM, separates noisy from clean clients by their dimensions, and
# wrong from right labels by their losses. Choices made here:
#
# - The numbers are standardized first, so that their unit and scale do not
#   change the groups. A group's variance is at least 1e-6 of the total.
# - A number below the lower mean never belongs to the upper group, however
#   wide that group is.
# - If all numbers are equal, all belong to the lower group.


def is_in_upper_group(values: np.ndarray) -> np.ndarray:
  """Returns which numbers belong to the upper group, bool[n].

  NaN belongs to the lower group, and infinity to the upper. Neither takes part
  in the fit.
  """
  numbers = np.asarray(values, np.float64)
  is_finite = np.isfinite(numbers)
  upper = np.isposinf(numbers)
  upper[is_finite] = _fit_upper_group(numbers[is_finite])
  return upper


def _fit_upper_group(numbers: np.ndarray) -> np.ndarray:
  if np.unique(numbers).size < 2:
    return np.zeros(len(numbers), bool)
  # Numbers are scaled, because the square of 1e200 would overflow.
  scaled = numbers / np.abs(numbers).max()
  spread = scaled.std()
  if spread == 0:
    return np.zeros(len(numbers), bool)
  # Imported here: every run imports this module, but few need scikit-learn,
  # whose import is slow.
  from sklearn import exceptions, mixture  # noqa: PLC0415

  points = ((scaled - scaled.mean()) / spread)[:, np.newaxis]
  start = _two_means(points[:, 0])
  fitted = mixture.GaussianMixture(
    2,
    tol=_TOLERANCE,
    reg_covar=_LEAST_VARIANCE,
    max_iter=_MOST_STEPS,
    means_init=[[points[~start].mean()], [points[start].mean()]],
    weights_init=[1 - start.mean(), start.mean()],
    precisions_init=[
      [[1 / (points[group].var() + _LEAST_VARIANCE)]]
      for group in (~start, start)
    ],
    random_state=0,
  )
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
    fitted.fit(points)
  means = fitted.means_[:, 0]
  in_upper = fitted.predict(points) == np.argmax(means)
  return np.asarray(in_upper & (points[:, 0] > means.min()))


def _two_means(numbers: np.ndarray) -> np.ndarray:
  """Returns which numbers are in the upper of two groups, bool[n].

  The groups minimize the sum of squares within groups. In one dimension, the
  best groups result from a cut of the sorted numbers, so nothing is random.
  """
  levels, counts = np.unique(numbers, return_counts=True)
  number_below = np.cumsum(counts)[:-1]
  sum_below = np.cumsum(levels * counts)[:-1]
  total, n = (levels * counts).sum(), len(numbers)
  # Minimizing the sum of squares within groups maximizes that between groups.
  between = sum_below**2 / number_below + (total - sum_below) ** 2 / (
    n - number_below
  )
  return np.asarray(numbers > levels[np.argmax(between)])
