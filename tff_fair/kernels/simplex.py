"""Computes projections and linear programs on the simplex, or on a box in it.

The Euclidean projection of v onto {x : sum x = 1, lower <= x <= upper} is
x = clip(v - tau, lower, upper), where tau is a root of the non-increasing,
piecewise linear function sum_k clip(v_k - tau, lower_k, upper_k) - 1 (for the
simplex itself: Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient projections
onto the l1-ball for learning in high dimensions", ICML 2008). Its kinks are at
v - lower and v - upper, so a bisection over the sorted kinks finds the linear
piece that contains the root, and a division gives the root on this piece. The
projection takes O(m log m) operations.
"""

import tensorflow as tf


def project_to_simplex(v: tf.Tensor) -> tf.Tensor:
  """Returns the point nearest to v, float64[m], in {x : x >= 0, sum x = 1}."""
  return project_to_box_simplex(v, 0.0, 1.0)


def project_to_box_simplex(
  v: tf.Tensor, lower: tf.Tensor | float, upper: tf.Tensor | float
) -> tf.Tensor:
  """Returns the point nearest to v in {x : lower <= x <= upper, sum x = 1}.

  v, float64[m], may have any finite values. Bounds are float64[m] or scalars
  with 0 <= lower <= upper; upper values above 1 act as 1. The result satisfies
  the bounds exactly. Its sum is 1 up to rounding, because tau is computed
  relative to a nearby entry of v. If no point is feasible, the result is
  `lower` if sum(lower) > 1, and `upper` if sum(upper) < 1.
  """
  v = tf.cast(v, tf.float64)
  lower = tf.broadcast_to(tf.cast(lower, tf.float64), tf.shape(v))
  upper = tf.broadcast_to(tf.cast(upper, tf.float64), tf.shape(v))
  upper = tf.minimum(upper, 1.0)

  # Let b be the smallest entry of v with sum clip(v - b, lower, upper) <= 1. As
  # all bounds are in [0, 1], b - 1 <= tau <= b. So if |v_k - b| > 1, x_k equals
  # one of its bounds, whatever the exact value of v_k.
  _, base = _bracket(tf.sort(v), v, lower, upper)
  v = tf.clip_by_value(v - base, -1.0, 1.0)

  kinks = tf.sort(tf.concat([v - lower, v - upper], axis=0))
  left, right = _bracket(kinks, v, lower, upper)
  left_sum = _clipped_sum(left, v, lower, upper)
  right_sum = _clipped_sum(right, v, lower, upper)
  fraction = tf.math.divide_no_nan(left_sum - 1.0, left_sum - right_sum)
  tau = left + fraction * (right - left)
  return restore_unit_sum(tf.clip_by_value(v - tau, lower, upper), lower, upper)


def restore_unit_sum(
  x: tf.Tensor, lower: tf.Tensor, upper: tf.Tensor
) -> tf.Tensor:
  """Moves x slightly, within the box, so that its sum is 1 despite rounding.

  Every entry of x, float64[m], moves in proportion to its distance from the
  nearer bound, so entries at a bound stay there, and equal entries stay equal.
  """
  room = tf.minimum(x - lower, upper - x)
  missing = 1.0 - tf.reduce_sum(x)
  share = tf.math.divide_no_nan(missing, tf.reduce_sum(room))
  x += tf.clip_by_value(share, -1.0, 1.0) * room
  return tf.clip_by_value(x, lower, upper)


def linear_gap(
  gradient: tf.Tensor,
  above_lower: tf.Tensor,
  below_upper: tf.Tensor,
  total: tf.Tensor,
) -> tf.Tensor:
  """Returns max over feasible s of <gradient, x - s>, float64[].

  The best s raises coordinates to their upper bounds in ascending order of the
  gradient, until the sum is 1. Relative to the gradient of the last coordinate
  that is raised, the gap is a sum of nonnegative terms, so nothing cancels.
  `above_lower` is x - lower, `below_upper` is upper - x, float64[m] each, and
  `total` is 1 - sum(lower).
  """
  order = tf.argsort(gradient)
  ascending = tf.gather(gradient, order)
  width = tf.gather(above_lower + below_upper, order)
  reached = tf.cumsum(width, exclusive=True) < total
  price = tf.reduce_max(tf.where(reached, ascending, ascending[0]))
  reduced = gradient - price
  return tf.reduce_sum(
    tf.nn.relu(reduced) * above_lower + tf.nn.relu(-reduced) * below_upper
  )


def _clipped_sum(
  tau: tf.Tensor, v: tf.Tensor, lower: tf.Tensor, upper: tf.Tensor
) -> tf.Tensor:
  return tf.reduce_sum(tf.clip_by_value(v - tau, lower, upper))


def _bracket(
  thresholds: tf.Tensor, v: tf.Tensor, lower: tf.Tensor, upper: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the neighbouring thresholds tau between which a sum passes 1.

  The sum is `_clipped_sum`, a function of tau; `thresholds`, float64[n], are
  sorted. If the sum is above 1 at all thresholds, returns the last two; if it
  is at most 1 at all thresholds, returns the first one twice.
  """
  last = tf.size(thresholds) - 1

  def narrow(low: tf.Tensor, high: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    middle = (low + high) // 2
    above = _clipped_sum(thresholds[middle], v, lower, upper) > 1.0
    return tf.where(above, middle + 1, low), tf.where(above, high, middle)

  # The index of the first threshold with a sum of at most 1, else `last`.
  index, _ = tf.while_loop(
    lambda low, high: low < high, narrow, (tf.constant(0), last)
  )
  return thresholds[tf.maximum(index - 1, 0)], thresholds[index]
