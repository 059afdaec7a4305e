"""Convex quadratic programs over a box in the probability simplex.

  minimize x^T G x + q^T x  subject to  sum_k x_k = 1,  lower <= x <= upper

Choices made here:

- The box is first tightened to the bounds that feasible points attain, and x is
  written as lower + width * t. All degenerate boxes (no width, one feasible
  point, m = 1) then have coordinates of no width and need no case of their own,
  and t = const is a well-centred feasible start.
- It stops at a duality gap of 1e-13 * (sum_k x_k sqrt(G_kk))^2, near the
  rounding errors of the objective itself. A share of max_k G_kk would be easier
  to reach, but says little where the minimizer avoids the longest points.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_fair.kernels import interior_point, simplex


class Minimum(NamedTuple):
  """A solution of the program.

  Attributes:
    coefficients: float64[m], x; inside the box exactly, its sum is 1 up to
      rounding.
    gap: float64[], max over feasible s of <2 G x + q, x - s> (the Frank-Wolfe
      gap), which bounds the objective minus its minimum, in the unit of G.
    iterations: int32[], the Newton steps taken.
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

  Args:
    gram: float64[m, m], G, symmetric positive semidefinite, m >= 1; it may be
      singular, and its scale may be anything.
    linear: float64[m], q; `None` is 0.
    lower: float64[m] or a scalar, 0 <= lower <= upper.
    upper: float64[m] or a scalar; values above 1 act as 1. Where sum(lower) > 1
      or sum(upper) < 1, no point is feasible, and the result is that corner of
      the box.

  Returns:
    The solution, finite for any finite `gram` and `linear`.
  """
  gram = tf.cast(gram, tf.float64)
  shape = tf.shape(gram)[:1]
  lower = tf.broadcast_to(tf.cast(lower, tf.float64), shape)
  upper = tf.broadcast_to(tf.cast(upper, tf.float64), shape)
  minimum: Minimum = _minimize(gram, linear, lower, tf.minimum(upper, 1.0))
  return minimum


# Traced once, and called by all graphs: of an interior-point method they would
# have hundreds of operations each, some of them twice.
@tf.function(autograph=False, reduce_retracing=True)
def _minimize(
  gram: tf.Tensor,
  linear: tf.Tensor | None,
  lower: tf.Tensor,
  upper: tf.Tensor,
) -> Minimum:
  scale = tf.reduce_max(tf.abs(gram))
  if linear is not None:
    # On the simplex a constant changes nothing but the rounding.
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
    interior_point.slopes(problem, x),
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
  """Tightens the box to the bounds that feasible points attain."""
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
