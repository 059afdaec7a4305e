"""The local intrinsic dimension (LID) of prediction vectors.

Amsaleg et al., "Estimating Local Intrinsic Dimensionality" (KDD 2015); FedCorr
(Xu et al., CVPR 2022) finds noisy clients by it: a model that learns wrong
labels spreads its predictions over a space of more dimensions.

    LID(x) = -( 1/k sum_{i=1..k} log(r_i / r_k) )^-1

r_1 <= ... <= r_k are the distances from x to its k nearest neighbours in the
same set. Choices, where the formula has no value:

- A neighbour at distance 0 makes LID(x) 0, the limit of the formula.
- Neighbours that are all equally far, but not at 0, would make it infinite:
  such an x has no estimate, and the mean over a client leaves it out.
- A set of k examples or fewer takes all others as neighbours.
"""

import numpy as np
from scipy.spatial import distance

NEIGHBORS = 20  # k of the paper.
# Distances of so many rows at a time: a client of 100,000 examples would need
# 80 GB for all.
_ROWS_AT_A_TIME = 256


def local_dimensions(
  predictions: np.ndarray, neighbors: int = NEIGHBORS
) -> np.ndarray:
  """Returns the LID of each of some vectors among them all.

  Args:
    predictions: float[n, d], one vector for each example.
    neighbors: k, at least 2.

  Returns:
    float64[n], not negative; NaN where there is no estimate: for fewer than
    three vectors, for neighbours that are all equally far, and for all where
    some number is not finite.
  """
  points = np.asarray(predictions, np.float64)
  n = len(points)
  k = min(neighbors, n - 1)
  if k < 2 or not np.isfinite(points).all():
    return np.full(n, np.nan)
  return np.concatenate(
    [
      _of_distances(_to_others(points, start, k))
      for start in range(0, n, _ROWS_AT_A_TIME)
    ]
  )


def mean_dimension(
  predictions: np.ndarray, neighbors: int = NEIGHBORS
) -> float:
  """Returns the mean LID of a client's predictions.

  Args:
    predictions: float[n, d], one vector for each example of the client.
    neighbors: k, at least 2.

  Returns:
    The mean over examples that have an estimate; NaN where none has.
  """
  found = local_dimensions(predictions, neighbors)
  found = found[~np.isnan(found)]
  return float(found.mean()) if found.size else float("nan")


def _to_others(points: np.ndarray, start: int, k: int) -> np.ndarray:
  """Returns the k least distances from some points to all others, ascending."""
  some = points[start : start + _ROWS_AT_A_TIME]
  found = distance.cdist(some, points)
  own = np.arange(len(some))
  found[own, start + own] = np.inf
  return np.sort(np.partition(found, k - 1, axis=1)[:, :k], axis=1)


def _of_distances(radii: np.ndarray) -> np.ndarray:
  """Returns the LID of ascending distances, float64[m, k] to float64[m]."""
  furthest = radii[:, -1:]
  with np.errstate(divide="ignore", invalid="ignore"):
    mean_log = np.log(radii / furthest).mean(axis=1)
    found = -1 / mean_log  # -inf, of a distance of 0, gives 0.
  found[furthest[:, 0] == 0] = 0.0
  found[mean_log == 0] = np.nan
  return found + 0.0  # No negative zero.
