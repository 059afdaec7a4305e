"""Tests of the point of least norm with bounds on the coefficients."""

import math

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tests import hulls
from tests.kernels.simplex_test import box_around
from tests.metrics import stationarity_test
from tff_fair.kernels import min_norm_point, pareto_stationarity

_VECTOR = tf.TensorSpec([None], tf.float64)
_solve = tf.function(
  min_norm_point,
  input_signature=[tf.TensorSpec([None, None], tf.float64), _VECTOR, _VECTOR],
)


def _least_value(gradient, lower, upper):
  """Returns the least <gradient, s> over feasible s, filled cheapest first."""
  s, left = lower.copy(), 1.0 - math.fsum(lower)
  for k in np.argsort(gradient):
    step = min(upper[k] - lower[k], left)
    s[k], left = s[k] + step, left - step
  return gradient @ s


def _checked_solution(gram, lower, upper, relative_gap=1e-12):
  """Returns x after checking that it is feasible, and optimal by its gap."""
  gram = np.asarray(gram, np.float64)
  m = len(gram)
  lower, upper = (np.broadcast_to(a, m).astype(float) for a in (lower, upper))
  solution = _solve(gram, lower, upper)
  x = solution.coefficients.numpy()
  assert np.all(x >= lower)
  assert np.all(x <= upper)
  assert x.sum() == pytest.approx(1.0, abs=1e-15)

  scale = gram.diagonal().max() or 1.0
  gradient = 2 * (gram / scale) @ x
  gap = gradient @ x - _least_value(gradient, lower, upper)
  assert gap <= relative_gap
  assert solution.gap.numpy() / scale == pytest.approx(gap, abs=1e-14)
  assert solution.gap.numpy() >= 0.0
  return x


def _projected_gradient_residual(gram, lower, upper, x):
  """Returns ||x - P(x - grad)||_inf, with G scaled to a diagonal up to 1.

  P projects on the feasible set. Only at an optimal x is the residual 0.
  """
  target = x - 2 * gram @ x / gram.diagonal().max()

  def excess(tau):
    return np.clip(target - tau, lower, upper).sum() - 1.0

  low, high = np.min(target - upper) - 1.0, np.max(target - lower) + 1.0
  if abs(excess(low)) < 1e-15 or abs(excess(high)) < 1e-15:
    return 0.0  # The box has one feasible point.
  tau = scipy.optimize.brentq(excess, low, high, xtol=1e-16, rtol=1e-15)
  return np.abs(x - np.clip(target - tau, lower, upper)).max()


def _random_problem(seed):
  points, rng = (
    stationarity_test.random_updates(seed),
    np.random.default_rng(seed),
  )
  m = len(points)
  if seed % 3 == 0:
    return points, np.zeros(m), np.ones(m)
  p = rng.dirichlet(np.ones(m))
  epsilon = rng.choice([0.5, 0.1, 0.01, 1e-3, 1e-6])
  if seed % 3 == 1:
    epsilon = epsilon * rng.uniform(size=m) * (rng.random(m) < 0.7)
  return points, *box_around(p, epsilon)


@pytest.mark.parametrize("first_seed", range(0, 200, 20))
def test_random_problems(first_seed):
  for seed in range(first_seed, first_seed + 20):
    points, lower, upper = _random_problem(seed)
    gram = points @ points.T
    x = _checked_solution(gram, lower, upper)
    residual = _projected_gradient_residual(gram, lower, upper, x)
    assert residual <= 1e-6, seed


@pytest.mark.parametrize("seed", range(25))
def test_small_problems_of_integers(seed):
  # The rank is low, and some entries of x have equal bounds.
  rng = np.random.default_rng(seed)
  m, d = int(rng.integers(1, 5)), int(rng.integers(1, 5))
  points = rng.integers(-4, 6, size=(m, d))
  gram = points @ points.T
  lower = rng.choice([0.0, 1 / 16, 1 / 8], size=m)
  upper = np.minimum(lower + rng.choice([0.0, 0.25, 1.0], size=m), 1.0)
  upper[0] = 1.0
  _checked_solution(gram, lower, upper)


@pytest.mark.parametrize("seed", range(10))
def test_hull_agrees_with_nonnegative_least_squares(seed):
  rng = np.random.default_rng(seed)
  m = int(rng.integers(2, 100))
  points = rng.normal(size=(m, 150)) + rng.uniform(0, 0.3)
  x = _checked_solution(points @ points.T, 0.0, 1.0)
  np.testing.assert_allclose(x, hulls.least_norm(points), rtol=0, atol=1e-7)


@pytest.mark.parametrize("m", [1, 2, 20, 200])
def test_a_box_of_one_point_gives_it_exactly(m):
  rng = np.random.default_rng(m)
  points = rng.normal(size=(m, 7))
  for p in (
    rng.dirichlet(np.ones(m)),
    np.full(m, 1 / m),
    rng.dirichlet(np.ones(m)).astype(np.float32).astype(np.float64),
  ):
    solution = _solve(points @ points.T, *box_around(p, 0.0))
    np.testing.assert_array_equal(solution.coefficients, p)
    assert solution.gap.numpy() == 0.0


@pytest.mark.parametrize("epsilon", [1e-320, 1e-17, 1e-16, 1e-14, 1e-11, 1e-8])
def test_a_box_of_hardly_any_width(epsilon):
  rng = np.random.default_rng(0)
  points = rng.normal(size=(20, 7))
  p = rng.dirichlet(np.ones(20))
  x = _checked_solution(points @ points.T, *box_around(p, epsilon))
  np.testing.assert_allclose(x, p, rtol=0, atol=2 * epsilon + 1e-16)


def test_coefficients_without_room_are_kept_and_the_rest_is_solved():
  rng = np.random.default_rng(1)
  points = rng.normal(size=(12, 30)) + 0.5
  p = rng.dirichlet(np.ones(12))
  fixed = np.arange(12) % 2 == 0
  lower, upper = np.where(fixed, p, 0.0), np.where(fixed, p, 1.0)
  x = _checked_solution(points @ points.T, lower, upper)
  np.testing.assert_array_equal(x[fixed], p[fixed])
  assert np.abs(x - p)[~fixed].max() > 1e-3


def test_left_out_points_get_nothing_and_do_not_matter():
  points = np.random.default_rng(2).normal(size=(9, 40)) + 0.3
  used = np.arange(9) < 6
  x = _checked_solution(points @ points.T, 0.0, used.astype(float))
  without = _checked_solution(points[used] @ points[used].T, 0.0, 1.0)
  np.testing.assert_array_equal(x[~used], 0.0)
  np.testing.assert_allclose(x[used], without, rtol=0, atol=1e-9)


def test_one_feasible_corner():
  p = np.random.default_rng(3).dirichlet(np.ones(8))
  gram = np.diag(np.arange(1.0, 9.0))
  for lower, upper in ((p, np.ones(8)), (np.zeros(8), p)):
    solution = _solve(gram, lower, upper)
    np.testing.assert_allclose(solution.coefficients, p, rtol=0, atol=1e-15)
    assert solution.iterations.numpy() == 0


def test_an_infeasible_box_gives_its_nearest_corner():
  gram = np.diag([1.0, 2.0, 3.0])
  low, high = np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.3])
  for lower, upper, corner in ((low, np.ones(3), low), (low * 0, high, high)):
    solution = _solve(gram, lower, upper)
    np.testing.assert_array_equal(solution.coefficients, corner)


@pytest.mark.parametrize("scale", [1e-250, 1e-60, 1e-30, 1e60, 1e300])
def test_the_scale_of_the_gram_matrix_does_not_matter(scale):
  points = np.random.default_rng(4).normal(size=(30, 50)) + 0.1
  gram = points @ points.T
  x = _checked_solution(gram * scale, 0.0, 1.0)
  expected = _checked_solution(gram, 0.0, 1.0)
  np.testing.assert_allclose(x, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("decades", [10, 40, 90, 120])
def test_points_of_very_unequal_lengths(decades):
  # For orthogonal points, x_k is 1 / G_kk divided by the sum of all 1 / G_kk.
  squares = np.logspace(30 - decades, 30, 60)
  gram = np.diag(squares)
  x = _checked_solution(gram, 0.0, 1.0)
  np.testing.assert_allclose(
    x, (1 / squares) / np.sum(1 / squares), rtol=0, atol=1e-6
  )
  assert x @ gram @ x == pytest.approx(1 / np.sum(1 / squares), rel=1e-9)


@pytest.mark.parametrize("m", [2, 9, 200])
def test_no_points_but_zero(m):
  x = _checked_solution(np.zeros((m, m)), 0.0, 1.0)
  np.testing.assert_allclose(x, 1 / m, rtol=0, atol=1e-15)


def test_scalar_bounds_apply_to_every_point_and_may_be_infinite():
  gram = np.diag([1.0, 4.0, 8.0])
  for upper in (1.0, 3.0, np.inf):
    x = min_norm_point(gram, 0.25, upper).coefficients
    np.testing.assert_allclose(x, [0.5, 0.25, 0.25], rtol=0, atol=1e-12)


def test_one_zero_point_takes_all():
  points = np.random.default_rng(5).normal(size=(20, 30)) + 1.0
  points[3] = 0.0
  x = _checked_solution(points @ points.T, 0.0, 1.0)
  np.testing.assert_allclose(x, np.eye(20)[3], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
  "points",
  [
    np.vander(np.linspace(0, 1, 100), 12),
    np.linspace(-1, 1, 200)[:, np.newaxis],
    np.ones((200, 3)),
    1e6 + np.random.default_rng(6).normal(size=(100, 300)),
    1.0 + 1e-9 * np.random.default_rng(7).normal(size=(100, 300)),
  ],
  ids=["vandermonde", "line", "equal", "far", "near_duplicates"],
)
def test_ill_conditioned_points(points):
  _checked_solution(points @ points.T, 0.0, 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_identical_points_get_equal_coefficients(epsilon):
  rng = np.random.default_rng(8)
  points = rng.normal(size=(40, 15)) + 0.3
  points[10:20] = points[:10]
  box = box_around(np.full(40, 1 / 40), epsilon)
  x = _checked_solution(points @ points.T, *box)
  np.testing.assert_allclose(x[:10], x[10:20], rtol=0, atol=1e-9)


@pytest.mark.parametrize("d", [1, 5, 20, 500])
def test_the_order_of_the_points_does_not_matter(d):
  rng = np.random.default_rng(9)
  points = rng.normal(size=(60, d)) + 0.3
  gram = points @ points.T
  lower, upper = box_around(rng.dirichlet(np.ones(60)), 0.2)
  order = rng.permutation(60)
  x = _checked_solution(gram, lower, upper)
  permuted = _checked_solution(
    gram[np.ix_(order, order)], lower[order], upper[order]
  )
  np.testing.assert_allclose(
    permuted @ points[order], x @ points, rtol=0, atol=1e-8
  )
  if d > 60:  # The coefficients are unique.
    np.testing.assert_allclose(permuted, x[order], rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_gram_matrix_of_the_precision_of_float32(seed):
  # The negative eigenvalues make the Newton matrix indefinite at the end.
  rng = np.random.default_rng(seed)
  points = rng.normal(size=(100, 20)) + 0.5
  gram = (points @ points.T).astype(np.float32).astype(np.float64)
  assert np.linalg.eigvalsh(gram)[0] < -1e-7
  _checked_solution(gram, 0.0, 1.0, relative_gap=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_a_matrix_that_is_no_gram_matrix_still_gives_a_feasible_point(seed):
  matrix = 1e200 * np.random.default_rng(seed).normal(size=(25, 25))
  solution = _solve(matrix + matrix.T, np.zeros(25), np.full(25, 0.2))
  x = solution.coefficients.numpy()
  assert np.isfinite(solution.gap.numpy())
  assert x.sum() == pytest.approx(1.0, abs=1e-15)
  assert x.min() >= 0.0
  assert x.max() <= 0.2


def test_few_newton_steps_are_enough():
  for seed in range(5):
    points = np.random.default_rng(seed).normal(size=(100, 1000))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    box = box_around(np.full(100, 0.01), 0.1)
    solution = _solve(points @ points.T, *box)
    assert 0 < solution.iterations.numpy() <= 15
    assert solution.gap.numpy() <= 1e-12


def test_weights_of_stationarity_are_those_of_the_clients_in_conflict():
  # The first two points conflict; the third conflicts with neither.
  points = np.array([[1.0, 0.5], [-1.0, 0.5], [0.0, 3.0]])
  found = pareto_stationarity(points @ points.T)
  np.testing.assert_allclose(found.weights, [0.5, 0.5, 0.0], atol=1e-6)
  mean = np.linalg.norm(points, axis=1).mean()
  assert float(found.value) == pytest.approx(0.5 / mean, abs=1e-12)
