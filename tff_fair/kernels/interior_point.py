"""Solves convex quadratic programs by an interior-point method.

Mehrotra's predictor-corrector method ("On the implementation of a primal-dual
interior point method", SIAM J. Optim. 2, 1992) for m variables:

  minimize x^T G x + q^T x,  x = lower + width * t,
  subject to  sum_k width_k t_k = total,  0 <= t <= 1.

With W = diag(width) and multipliers z of t >= 0, y of t <= 1 and p of the sum,
the minimizer satisfies

  W (2 G x + q) - p width - z + y = 0,   t z = 0,   (1 - t) y = 0.

Every iterate is primal and dual feasible up to rounding, so each one has a
duality gap; the iterate with the smallest gap is returned.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tff_fair.kernels import gram as gram_lib, simplex

# The duality gap at which the search stops, relative to the objective's scale:
# the squared norm that sum_k x_k v_k, with v_k the points of the Gram matrix,
# would have if all v_k had the same direction, plus sum_k x_k |q_k|.
_RELATIVE_GAP = 1e-13
# A gap up to this share of the smallest squared norm above 0 counts as 0.
_NEGLIGIBLE = 1e-30
# More than 50 steps are needed only if norms differ by 20 orders of magnitude.
_MAX_ITERATIONS = 200
# The search stops after this many steps without a smaller gap.
_PATIENCE = 15
STEP_TO_BOUNDARY = 0.995
# Added to the diagonal of the Newton matrix, after the diagonal is scaled to 1.
REGULARIZATION = 1e-14


class Problem(NamedTuple):
  """The program in t, with x = lower + width * t and 0 <= t <= 1."""

  gram: tf.Tensor  # float64[m, m], scaled to entries of at most 1.
  lower: tf.Tensor  # float64[m].
  width: tf.Tensor  # float64[m], upper - lower, 0 or more.
  total: tf.Tensor  # float64[], the sum of width * t.
  linear: tf.Tensor | None = None  # float64[m], q; `None` is 0.


class _Iterate(NamedTuple):
  """A primal and dual point; all its entries are positive, except the price."""

  t: tf.Tensor  # float64[m].
  # float64[m], 1 - t, stored separately because t may be very near to 1.
  rest: tf.Tensor
  lower_dual: tf.Tensor  # float64[m], z.
  upper_dual: tf.Tensor  # float64[m], y.
  price: tf.Tensor  # float64[], p.


class _Search(NamedTuple):
  """The state of the loop over Newton steps."""

  iterate: _Iterate
  best_t: tf.Tensor
  best_gap: tf.Tensor
  steps_since_best: tf.Tensor
  regularization: tf.Tensor
  steps: tf.Tensor


def minimize(problem: Problem) -> tuple[tf.Tensor, tf.Tensor]:
  """Minimizes x^T G x + q^T x; width_k <= total must hold for every k.

  Returns the t, float64[m], of the iterate with the smallest duality gap, and
  the number of Newton steps, int32[].
  """
  squared_norms = tf.nn.relu(tf.linalg.diag_part(problem.gram))
  norms = tf.sqrt(squared_norms)
  negligible_gap = _NEGLIGIBLE * tf.reduce_min(
    tf.where(squared_norms > 0, squared_norms, tf.ones_like(squared_norms))
  )

  def unfinished(search: _Search) -> tf.Tensor:
    x = problem.lower + problem.width * search.best_t
    tolerance = _RELATIVE_GAP * gram_lib.inner_product(x, norms) ** 2
    if problem.linear is not None:
      tolerance += _RELATIVE_GAP * gram_lib.inner_product(
        x, tf.abs(problem.linear)
      )
    return (
      (search.best_gap > tf.maximum(tolerance, negligible_gap))
      & (search.steps < _MAX_ITERATIONS)
      & (search.steps_since_best < _PATIENCE)
    )

  start = _starting_point(problem)
  (search,) = tf.while_loop(
    unfinished,
    lambda search: (_advance(problem, search),),
    (
      _Search(
        iterate=start,
        best_t=start.t,
        best_gap=_iterate_gap(problem, start),
        steps_since_best=tf.constant(0),
        regularization=tf.constant(REGULARIZATION, tf.float64),
        steps=tf.constant(0),
      ),
    ),
  )
  return search.best_t, search.steps


def _advance(problem: Problem, search: _Search) -> _Search:
  """Returns the state of the search after one more Newton step."""
  following = _newton_step(problem, search.iterate, search.regularization)
  # If the matrix is singular up to rounding, the factorization gives NaN. Then
  # the next step starts at the same iterate, with a larger regularization.
  succeeded = tf.reduce_all(tf.math.is_finite(tf.concat(following[:4], 0)))
  iterate = tf.nest.map_structure(
    lambda new, old: tf.where(succeeded, new, old), following, search.iterate
  )
  gap = _iterate_gap(problem, iterate)
  better = gap < search.best_gap
  return _Search(
    iterate=iterate,
    best_t=tf.where(better, iterate.t, search.best_t),
    best_gap=tf.where(better, gap, search.best_gap),
    steps_since_best=tf.where(better, 0, search.steps_since_best + 1),
    regularization=tf.where(
      succeeded, search.regularization, 100.0 * search.regularization
    ),
    steps=search.steps + 1,
  )


def _starting_point(problem: Problem) -> _Iterate:
  """Returns a feasible primal and dual point away from all bounds."""
  width = problem.width
  # In the tightened box, no width exceeds 1 - sum(lower) or sum(upper) - 1, so
  # 1/m <= share <= 1 - 1/m unless all widths are 0.
  margin = 0.5 / tf.cast(tf.size(width), tf.float64)
  share = tf.math.divide_no_nan(problem.total, tf.reduce_sum(width))
  t = tf.fill(tf.shape(width), tf.clip_by_value(share, margin, 1.0 - margin))

  gradient = _gradient_in_t(problem, t)
  price = tf.math.divide_no_nan(
    gram_lib.inner_product(width, gradient),
    gram_lib.inner_product(width, width),
  )
  reduced = gradient - price * width
  largest = tf.reduce_max(tf.abs(reduced))
  offset = tf.where(largest > 0, largest, tf.ones_like(largest))
  return _Iterate(
    t=t,
    rest=1.0 - t,
    lower_dual=tf.nn.relu(reduced) + offset,
    upper_dual=tf.nn.relu(-reduced) + offset,
    price=price,
  )


def _newton_step(
  problem: Problem, iterate: _Iterate, regularization: tf.Tensor
) -> _Iterate:
  """Returns the iterate after one of Mehrotra's predictor-corrector steps."""
  t, rest, lower_dual, upper_dual, price = iterate
  width = problem.width
  dual_residual = (
    _gradient_in_t(problem, t) - price * width - lower_dual + upper_dual
  )
  primal_residual = problem.total - gram_lib.inner_product(width, t)

  # With z and y eliminated, the changes dt and dp of t and p solve
  # (2 W G W + diag(z / t + y / (1 - t))) dt = rhs + width dp.
  matrix = (
    2.0 * problem.gram * tf.expand_dims(width, 1) * tf.expand_dims(width, 0)
  )
  diagonal = tf.linalg.diag_part(matrix) + lower_dual / t + upper_dual / rest
  solve = newton_solver(matrix, diagonal, regularization)
  price_response = solve(width)
  sum_response = gram_lib.inner_product(width, price_response)

  def direction(lower_target: tf.Tensor, upper_target: tf.Tensor) -> _Iterate:
    """Returns the step that changes t z and (1 - t) y by the two targets."""
    free_change = solve(lower_target / t - upper_target / rest - dual_residual)
    price_change = tf.math.divide_no_nan(
      primal_residual - gram_lib.inner_product(width, free_change), sum_response
    )
    change = free_change + price_change * price_response
    return _Iterate(
      t=change,
      rest=-change,
      lower_dual=(lower_target - lower_dual * change) / t,
      upper_dual=(upper_target + upper_dual * change) / rest,
      price=price_change,
    )

  predictor = direction(-t * lower_dual, -rest * upper_dual)
  length = boundary(iterate[:4], predictor[:4])
  predicted = _move(iterate, predictor, tf.minimum(length, 1.0))
  mean = _mean_complementarity(iterate)
  centre = mean * (_mean_complementarity(predicted) / mean) ** 3
  corrector = direction(
    centre - t * lower_dual - predictor.t * predictor.lower_dual,
    centre - rest * upper_dual - predictor.rest * predictor.upper_dual,
  )
  length = STEP_TO_BOUNDARY * boundary(iterate[:4], corrector[:4])
  return _move(iterate, corrector, tf.minimum(length, 1.0))


def newton_solver(
  matrix: tf.Tensor,
  diagonal: tf.Tensor,
  regularization: tf.Tensor | float = REGULARIZATION,
) -> Callable[[tf.Tensor], tf.Tensor]:
  """Returns a function that solves A x = rhs, float64[m], for x.

  A is `matrix`, float64[m, m], with another `diagonal`, float64[m].
  """
  jacobi = tf.math.rsqrt(diagonal)
  scaled = matrix * tf.expand_dims(jacobi, 1) * tf.expand_dims(jacobi, 0)
  factor = tf.linalg.cholesky(
    tf.linalg.set_diag(scaled, tf.ones_like(jacobi) + regularization)
  )

  def solve(rhs: tf.Tensor) -> tf.Tensor:
    column = tf.expand_dims(jacobi * rhs, 1)
    return jacobi * tf.squeeze(tf.linalg.cholesky_solve(factor, column), 1)

  return solve


def _move(iterate: _Iterate, change: _Iterate, length: tf.Tensor) -> _Iterate:
  return tf.nest.map_structure(
    lambda value, step: value + length * step, iterate, change
  )


def boundary(
  values: Sequence[tf.Tensor], changes: Sequence[tf.Tensor]
) -> tf.Tensor:
  """Returns the smallest step length at which one of `values` becomes 0.

  Values are positive, and `changes` are their changes in a step of length 1. If
  no value decreases, returns the largest number of the dtype.
  """
  value, decrease = tf.concat(values, 0), -tf.concat(changes, 0)
  unlimited = tf.constant(value.dtype.max, value.dtype)
  return tf.reduce_min(tf.where(decrease > 0, value / decrease, unlimited))


def _mean_complementarity(iterate: _Iterate) -> tf.Tensor:
  return 0.5 * tf.reduce_mean(
    iterate.t * iterate.lower_dual + iterate.rest * iterate.upper_dual
  )


def gradient_in_x(problem: Problem, x: tf.Tensor) -> tf.Tensor:
  """Returns the gradient of the objective in x, 2 G x + q, float64[m]."""
  quadratic = 2.0 * tf.linalg.matvec(problem.gram, x)
  return quadratic if problem.linear is None else quadratic + problem.linear


def _gradient_in_t(problem: Problem, t: tf.Tensor) -> tf.Tensor:
  return problem.width * gradient_in_x(
    problem, problem.lower + problem.width * t
  )


def _iterate_gap(problem: Problem, iterate: _Iterate) -> tf.Tensor:
  return simplex.linear_gap(
    gradient_in_x(problem, problem.lower + problem.width * iterate.t),
    problem.width * iterate.t,
    problem.width * iterate.rest,
    problem.total,
  )
