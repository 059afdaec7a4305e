"""The point of least norm in a convex hull, by non-negative least squares."""

import numpy as np
from scipy import optimize


def least_norm(points) -> np.ndarray:
  """Returns the shares of points [m, d] in the point of least norm, [m].

  They are y / sum y, where y >= 0 minimizes ||U^T y||^2 + (1 - sum y)^2, and U
  has the scaled points as rows.
  """
  scale = np.linalg.norm(points, axis=1).mean() or 1.0
  system = np.vstack([np.transpose(points) / scale, np.ones(len(points))])
  target = np.eye(len(system))[-1]
  y, _ = optimize.nnls(system, target, maxiter=100 * len(points))
  return y / y.sum()
