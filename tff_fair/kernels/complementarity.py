"""Computes projections onto a dual cone, and Nash bargaining solutions.

Both problems lead to the same equations for u and z, float64[m] each, where C
is the correlation matrix of m points, b is a vector, and t is a number:

  z = C u + b,   u_k z_k = t,   u > 0,   z > 0.

In the limit t = 0, u minimizes u^T C u / 2 + b^T u over u >= 0, which gives a
projection. For t = 1 and b = 0, u is the bargaining solution of Nash.
Mehrotra's predictor-corrector method ("On the implementation of a primal-dual
interior point method", SIAM J. Optim. 2, 1992) needs 5 to 20 Newton steps of
O(m^3), even if C is singular.

Choices made here: C is the Gram matrix of the points scaled to norm 1, so norms
may differ by any factor; a zero point counts as orthogonal to all other points.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_fair.kernels import interior_point, norms, tracing

# The search stops when the equations hold up to this error, about float64's
# rounding.
_TOLERANCE = 1e-15
# The search stops after this many steps without a smaller error.
_PATIENCE = 25
_MAX_STEPS = 200
# For points of norm 1, coefficients up to this are rounding errors: they become
# 0.
_NEGLIGIBLE = 1e-12
# Points with at least this correlation count as having the same direction.
_SAME_DIRECTION = 1.0 - 1e-14
# The specs of `_solve`'s arguments.
_SPECS = (tracing.MATRIX, tracing.VECTOR, tracing.SCALAR)
# With a larger error, the bargaining equations count as unsolvable.
_BARGAIN_TOLERANCE = 1e-6


class Bargain(NamedTuple):
  """The Nash bargaining solution for points with the Gram matrix M."""

  coefficients: tf.Tensor  # float64[m], c.
  # float64[], max_k |c_k (M c)_k - 1| over the points that are not zero.
  error: tf.Tensor


class _Search(NamedTuple):
  """The state of the loop over Newton steps; u, z and best_u are float64[m]."""

  u: tf.Tensor
  z: tf.Tensor
  best_u: tf.Tensor
  best_error: tf.Tensor
  steps_since_best: tf.Tensor
  steps: tf.Tensor


def dual_cone_projections(gram: tf.Tensor) -> tf.Tensor:
  """Projects each of m points x_i onto {d : <x_k, d> >= 0 for all k}.

  Returns coefficients v, float64[m, m]: the projection of x_i is sum_k v_ik
  x_k. Row v_i minimizes v^T M v over v >= e_i, the i-th unit vector; M is
  `gram`, float64[m, m], possibly singular. If points are linearly dependent,
  v is not unique; points in the same direction then get equal shares of their
  total coefficient.
  """
  scale, correlation = _standardize(gram)
  solve = tracing.traced_once(_solve, *_SPECS)
  shares = tf.map_fn(lambda row: solve(correlation, row, 0.0)[0], correlation)
  shares = tf.where(shares > _NEGLIGIBLE, shares, tf.zeros_like(shares))
  same = tf.cast(correlation >= _SAME_DIRECTION, tf.float64)
  shares = tf.matmul(shares / tf.reduce_sum(same, 1), same)
  length = tf.expand_dims(tf.math.reciprocal_no_nan(scale), 1)
  identity = tf.eye(tf.size(scale), dtype=tf.float64)
  return identity + length * shares * tf.expand_dims(scale, 0)


def nash_bargain(gram: tf.Tensor) -> Bargain:
  """Returns the c > 0 with (M c)_k = 1 / c_k, for M = `gram`, float64[m, m].

  Zero points get the coefficient 0. The result is c = 0 if there is no
  solution, because 0 is in the convex hull of the points, or if M is too
  inexact to find the solution.
  """
  scale, correlation = _standardize(gram)
  solve = tracing.traced_once(_solve, *_SPECS)
  u, error = solve(correlation, tf.zeros_like(scale), 1.0)
  is_solved = error <= _BARGAIN_TOLERANCE
  return Bargain(tf.where(is_solved, u, tf.zeros_like(u)) * scale, error)


def _standardize(gram: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns each point's 1 / norm (0 for a zero point), and the matrix C."""
  gram = tf.cast(gram, tf.float64)
  scale = norms.inverse_norms(tf.nn.relu(tf.linalg.diag_part(gram)))
  # Multiplies by one factor at a time, because the product of the two factors
  # may leave the range of float64.
  correlation = gram * tf.expand_dims(scale, 1) * tf.expand_dims(scale, 0)
  return scale, tf.linalg.set_diag(correlation, tf.ones_like(scale))


def _solve(
  matrix: tf.Tensor, linear: tf.Tensor, target: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns u for C = `matrix`, b = `linear` and t = `target`, and its error.

  The error, float64[], is the largest violation of the module's equations by u.
  """

  def error_of(u: tf.Tensor) -> tf.Tensor:
    slope = tf.linalg.matvec(matrix, u) + linear
    wrong = tf.where(
      target > 0,
      tf.abs(u * slope - target),
      tf.maximum(-slope, u * tf.nn.relu(slope)),
    )
    return tf.reduce_max(wrong)

  def unfinished(search: _Search) -> tf.Tensor:
    return (
      (search.best_error > _TOLERANCE)
      & (search.steps < _MAX_STEPS)
      & (search.steps_since_best < _PATIENCE)
    )

  def advance(search: _Search) -> tuple[_Search]:
    u, z = _newton_step(matrix, linear, target, search.u, search.z)
    error = error_of(u)
    better = error < search.best_error  # False if the error is NaN.
    return (
      _Search(
        u=u,
        z=z,
        best_u=tf.where(better, u, search.best_u),
        best_error=tf.where(better, error, search.best_error),
        steps_since_best=tf.where(better, 0, search.steps_since_best + 1),
        steps=search.steps + 1,
      ),
    )

  start = tf.ones_like(linear)
  zero = tf.constant(0)
  (search,) = tf.while_loop(
    unfinished,
    advance,
    (_Search(start, start, start, error_of(start), zero, zero),),
  )
  return search.best_u, search.best_error


def _newton_step(
  matrix: tf.Tensor,
  linear: tf.Tensor,
  target: tf.Tensor,
  u: tf.Tensor,
  z: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns u and z after one of Mehrotra's predictor-corrector steps."""
  residual = tf.linalg.matvec(matrix, u) + linear - z
  # The steps du and dz solve C du - dz = -residual and z du + u dz = change,
  # where C is `matrix`, and `change` is the change of u z. Hence
  # (C + diag(z / u)) du = change / u - residual.
  diagonal = 1.0 + z / u
  solve = interior_point.newton_solver(matrix, diagonal)

  def direction(change: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns du and dz, the steps that change u z by `change`, float64[m]."""
    du = solve(change / u - residual)
    return du, (change - z * du) / u

  du, dz = direction(-u * z)
  length = interior_point.boundary((u, z), (du, dz))
  length = tf.minimum(length, 1.0)
  mean = tf.reduce_mean(u * z)
  predicted = tf.reduce_mean((u + length * du) * (z + length * dz))
  centre = tf.maximum(mean * (predicted / mean) ** 3, target)
  correction = tf.where(target > 0, tf.zeros_like(u), du * dz)
  du, dz = direction(centre - u * z - correction)
  length = interior_point.boundary((u, z), (du, dz))
  length = tf.minimum(interior_point.STEP_TO_BOUNDARY * length, 1.0)
  return u + length * du, z + length * dz
