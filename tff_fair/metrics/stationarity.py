"""Computes the Pareto stationarity of updates from a NumPy Gram matrix.

This function is for users; rounds call `tff_fair.kernels.pareto_stationarity`.
"""

import numpy as np
from numpy.typing import ArrayLike

from tff_fair.declared import FieldError

# By rounding, the two triangles of a valid Gram matrix may differ by this share
# of the largest entry.
_ASYMMETRY = 1e-9


def pareto_stationarity(gram: ArrayLike) -> float:
  """Returns the Pareto stationarity of updates, from their Gram matrix.

    s = min over the simplex of ||sum_k lambda_k Delta_k||
        / ((1/m) sum_k ||Delta_k||)

  s is in [0, 1]. It is 0 if no direction descends for all clients, to first
  order (Desideri, "Multiple-gradient descent algorithm (MGDA) for
  multiobjective optimization", Comptes Rendus Mathematique 350, 2012).

  Args:
    gram: float[m, m], <Delta_i, Delta_j>, m >= 1; may be singular.

  Returns:
    s; 0 if all updates are 0, or if the updates with weights above 0 cancel up
    to 3e-8 of their length, the rounding of a Gram matrix in float64.

  Raises:
    FieldError: If `gram` is not a symmetric matrix of finite numbers with
      squared norms on its diagonal.
  """
  matrix = np.asarray(gram, np.float64)
  if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
    raise FieldError(
      "gram",
      "expected a square matrix with a row for each client, found the shape "
      f"{matrix.shape}.",
    )
  if not np.isfinite(matrix).all():
    raise FieldError("gram", "expected finite numbers, found others.")
  diagonal = np.diag(matrix)
  if diagonal.min() < 0:
    raise FieldError(
      "gram",
      "expected squared norms on its diagonal, found "
      f"{diagonal.min():g}; compute it as updates @ updates.T.",
    )
  asymmetry = np.abs(matrix - matrix.T).max()
  if asymmetry > _ASYMMETRY * np.abs(matrix).max():
    raise FieldError(
      "gram",
      "expected a symmetric matrix, found entries that differ by "
      f"{asymmetry:g} from those across the diagonal.",
    )
  from tff_fair import kernels  # noqa: PLC0415  It loads TensorFlow.

  return float(kernels.pareto_stationarity(matrix).value)
