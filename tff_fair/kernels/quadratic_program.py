"""Solves convex quadratic programs over a box in the probability simplex.

  minimize x^T G x + q^T x  subject to  sum_k x_k = 1,  lower <= x <= upper

If G is the Gram matrix of m points, q = 0, and the bounds are 0 and 1, then x
holds the coefficients of the point of least norm in the points' convex hull.
MGDA solves this program (Desideri, "Multiple-gradient descent algorithm (MGDA)
for multiobjective optimization", Comptes Rendus Mathematique 350, 2012);
FedMGDA+ solves it with narrower bounds.

The interior-point method needs 5 to 15 Newton steps of O(m^3), even if G is
singular, unless the points' norms differ by orders of magnitude. If there are
several minimizers, it converges to the analytic centre of the set of these
minimizers. So identical points with identical bounds get equal coefficients up
to rounding, whatever the order of the points.

Choices made here:

- The box is first tightened to the bounds that feasible points attain, and x is
  written as lower + width * t. All degenerate boxes (no width, one feasible
  point, m = 1) then have coordinates of width 0 and need no special case, and
  a t with equal entries is a feasible start far from all bounds.
- The search stops at a duality gap of 1e-13 * (sum_k x_k sqrt(G_kk))^2, near
  the rounding errors of the objective. A gap relative to max_k G_kk would be
  easier to reach, but too large if the longest points have coefficients near 0.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_fair.kernels import gram as gram_lib, interior_point, simplex, tracing


class Minimum(NamedTuple):
  """A solution of the program.

  Attributes:
    coefficients: float64[m], x; exactly inside the box, with the sum 1 up to
      rounding.
    gap: float64[], max over feasible s of <2 G x + q, x - s> (the Frank-Wolfe
      gap): an upper bound on the objective minus its minimum, in G's unit.
    iterations: int32[], the number of Newton steps.
  """

  coefficients: tf.Tensor
  gap: tf.Tensor
  iterations: tf.Tensor


def minimize(
  gram: tf.Tensor,
  linear: tf.Tensor | None,
  lower: tf.Tensor | float,
  upper: tf.Tensor | float,
) -> Minimum:
  """Minimizes x^T G x + q^T x over a box in the probability simplex.

  G is `gram`, float64[m, m]: symmetric positive semidefinite, of any scale,
  possibly singular. q is `linear`, float64[m]; `None` means 0. Bounds are
  float64[m] or scalars with 0 <= lower <= upper; upper values above 1 act as 1.
  If no point is feasible, the result is `lower` if sum(lower) > 1, and `upper`
  if sum(upper) < 1. The result is always finite for finite G and q.
  """
  gram = tf.cast(gram, tf.float64)
  shape = tf.shape(gram)[:1]
  lower = tf.broadcast_to(tf.cast(lower, tf.float64), shape)
  upper = tf.broadcast_to(tf.cast(upper, tf.float64), shape)
  vectors = [lower, tf.minimum(upper, 1.0)]
  if linear is not None:
    vectors.append(linear)
  specs = [tracing.MATRIX, *[tracing.VECTOR] * len(vectors)]
  return Minimum(*tracing.traced_once(_minimize, *specs)(gram, *vectors))


def _minimize(
  gram: tf.Tensor,
  lower: tf.Tensor,
  upper: tf.Tensor,
  linear: tf.Tensor | None = None,
) -> Minimum:
  scale = tf.reduce_max(tf.abs(gram))
  if linear is not None:
    # Subtracting a constant from q makes q small, and does not change the
    # minimizer on the simplex.
    linear -= tf.reduce_min(linear)
    scale = tf.maximum(scale, tf.reduce_max(linear))
  scale = tf.where(scale > 0, scale, tf.ones_like(scale))
  problem = _standardize(
    gram / scale, None if linear is None else linear / scale, lower, upper
  )
  position, iterations = interior_point.minimize(problem)

  x = problem.lower + problem.width * position
  x = tf.clip_by_value(x, lower, upper)
  x = simplex.restore_unit_sum(x, lower, upper)
  gap = scale * simplex.linear_gap(
    interior_point.gradient_in_x(problem, x),
    x - lower,
    upper - x,
    1.0 - tf.reduce_sum(lower),
  )
  return Minimum(x, gap, iterations)


def _standardize(
  gram: tf.Tensor,
  linear: tf.Tensor | None,
  lower: tf.Tensor,
  upper: tf.Tensor,
) -> interior_point.Problem:
  """Returns the program, its bounds tightened to what feasible points reach."""
  room_above = tf.nn.relu(1.0 - tf.reduce_sum(lower))
  room_below = tf.nn.relu(tf.reduce_sum(upper) - 1.0)
  tight_upper = tf.minimum(upper, lower + room_above)
  tight_lower = tf.minimum(tf.maximum(lower, upper - room_below), tight_upper)
  return interior_point.Problem(
    gram=gram,
    lower=tight_lower,
    width=tight_upper - tight_lower,
    total=tf.nn.relu(1.0 - tf.reduce_sum(tight_lower)),
    linear=linear,
  )


# A squared norm of a sum counts as 0 up to this share of the squared norm that
# the sum would have if all its terms had the same direction.
_ROUNDING = 1e-15


class Stationarity(NamedTuple):
  """How far points are from having 0 in their convex hull.

  Attributes:
    value: float64[], s in [0, 1]; `pareto_stationarity` defines it.
    weights: float64[m], lambda, the coefficients of the point of least norm.
  """

  value: tf.Tensor
  weights: tf.Tensor


def min_norm_point(
  gram: tf.Tensor, lower: tf.Tensor | float, upper: tf.Tensor | float
) -> Minimum:
  """Minimizes x^T G x over a box in the probability simplex; see `minimize`."""
  return minimize(gram, None, lower, upper)


def pareto_stationarity(
  gram: tf.Tensor, weights: tf.Tensor | None = None
) -> Stationarity:
  """Divides the least norm in m points' convex hull by the points' mean norm.

    s = sqrt(lambda^T G lambda) / ((1/m) sum_k sqrt(G_kk))

  lambda minimizes lambda^T G lambda over the simplex (Desideri 2012). If the
  points are client updates, s = 0 means that no direction descends for all
  clients, to first order: a client can only gain if another one loses.

  Args:
    gram: float64[m, m], G, as for `min_norm_point`.
    weights: float64[m], lambda, if it is already known.

  Returns:
    s and lambda. s is 0 if the mean norm is 0, or if the points with weights
    above 0 cancel up to the rounding of G, about 3e-8 of their length.
  """
  gram = tf.cast(gram, tf.float64)
  if weights is None:
    weights = min_norm_point(gram, 0.0, 1.0).coefficients
  # G is scaled so that no square leaves the range of float64.
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
