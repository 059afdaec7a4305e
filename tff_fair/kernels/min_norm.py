"""The point of least norm in a convex hull, with bounds on the coefficients.

  minimize x^T G x  subject to  sum_k x_k = 1,  lower <= x <= upper

with G the Gram matrix of m points: the quadratic program of MGDA (Desideri,
"Multiple-gradient descent algorithm (MGDA) for multiobjective optimization",
Comptes Rendus Mathematique 350, 2012) and, with the box, of FedMGDA+.

The interior-point method needs 5 to 15 Newton steps of O(m^3), singular or not,
unless the points' norms differ by orders of magnitude. Where the minimizer is
not unique, it goes to the analytic centre of the face of minimizers, which
treats all points alike: identical points with identical bounds get equal
coefficients, in any order, up to rounding.
"""

from typing import NamedTuple, TypeAlias

import tensorflow as tf

from tff_fair.kernels import gram as gram_lib
from tff_fair.kernels import quadratic_program

MinNormPoint: TypeAlias = quadratic_program.Minimum

# Rounding gives the square of a length of 0 up to this share of the square of
# the length that the point would have if all its terms had one direction.
_ROUNDING = 1e-15


class Stationarity(NamedTuple):
  """How far points are from having 0 in their convex hull.

  Attributes:
    value: float64[], s in [0, 1].
    weights: float64[m], lambda, of the point of least norm.
  """

  value: tf.Tensor
  weights: tf.Tensor


def min_norm_point(
  gram: tf.Tensor, lower: tf.Tensor | float, upper: tf.Tensor | float
) -> MinNormPoint:
  """Minimizes x^T G x over a box in the probability simplex.

  Args:
    gram: float64[m, m], G, symmetric positive semidefinite, m >= 1; it may be
      singular, and its scale may be anything.
    lower: float64[m] or a scalar, 0 <= lower <= upper.
    upper: float64[m] or a scalar; values above 1 act as 1. Where sum(lower) > 1
      or sum(upper) < 1, no point is feasible, and the result is that corner of
      the box.

  Returns:
    The solution, finite for any finite `gram`.
  """
  return quadratic_program.minimize(gram, None, lower, upper)


def pareto_stationarity(
  gram: tf.Tensor, weights: tf.Tensor | None = None
) -> Stationarity:
  """Divides the least norm in a convex hull by the mean norm of the points.

    s = sqrt(lambda^T G lambda) / ((1/m) sum_k sqrt(G_kk))

  lambda minimizes lambda^T G lambda over the simplex (Desideri 2012). With
  client updates for the points, s = 0 says that no direction descends for all
  clients, to first order: one gains where another loses.

  Args:
    gram: float64[m, m], G, as for `min_norm_point`.
    weights: float64[m], lambda, where it is known already.

  Returns:
    s and lambda. s is 0 where the mean norm is 0, and where it is below
    the rounding of G, about 3e-8.
  """
  gram = tf.cast(gram, tf.float64)
  if weights is None:
    weights = min_norm_point(gram, 0.0, 1.0).coefficients
  # Scaled, so that no square leaves the range of float64.
  largest = tf.reduce_max(tf.linalg.diag_part(gram))
  gram = tf.math.divide_no_nan(gram, largest)
  norms = tf.sqrt(tf.nn.relu(tf.linalg.diag_part(gram)))
  square = gram_lib.inner_product(weights, tf.linalg.matvec(gram, weights))
  is_rounding = (
    square <= _ROUNDING * gram_lib.inner_product(weights, norms) ** 2
  )
  least = tf.sqrt(tf.where(is_rounding, tf.zeros_like(square), square))
  ratio = tf.math.divide_no_nan(least, tf.reduce_mean(norms))
  return Stationarity(tf.minimum(ratio, 1.0), weights)
