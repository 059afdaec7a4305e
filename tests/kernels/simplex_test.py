"""Tests of the projections onto the simplex and onto a box in it."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tff_fair.kernels import project_to_box_simplex, project_to_simplex, simplex

_VECTOR = tf.TensorSpec([None], tf.float64)
_project = tf.function(project_to_simplex, input_signature=[_VECTOR])
_project_to_box = tf.function(
  project_to_box_simplex, input_signature=[_VECTOR] * 3
)
_linear_gap = tf.function(
  simplex.linear_gap,
  input_signature=[_VECTOR] * 3 + [tf.TensorSpec([], tf.float64)],
)


def _exact_projection(v, lower, upper):
  """Projects in rational arithmetic; the box must be feasible."""
  v, lower, upper = ([Fraction(float(a)) for a in x] for x in (v, lower, upper))
  bounds = list(zip(v, lower, upper, strict=True))

  def clipped(tau):
    return [min(max(a - tau, low), high) for a, low, high in bounds]

  kinks = sorted({a - b for a, low, high in bounds for b in (low, high)})
  first, last = 0, len(kinks) - 1
  while first < last:  # The first kink with a sum of at most 1.
    middle = (first + last) // 2
    if sum(clipped(kinks[middle])) > 1:
      first = middle + 1
    else:
      last = middle
  left, right = kinks[max(first - 1, 0)], kinks[first]
  above, below = sum(clipped(left)), sum(clipped(right))
  tau = left
  if above != below:
    tau += (above - 1) / (above - below) * (right - left)
  return np.array([float(x) for x in clipped(tau)])


def _check(v, lower, upper, tolerance=1e-15):
  v, lower, upper = (np.asarray(a, np.float64) for a in (v, lower, upper))
  x = _project_to_box(v, lower, upper).numpy()
  np.testing.assert_allclose(
    x, _exact_projection(v, lower, upper), rtol=0, atol=tolerance
  )
  assert np.all(x >= lower)
  assert np.all(x <= upper)
  assert x.sum() == pytest.approx(1.0, abs=1e-15)


def box_around(p, epsilon):
  return np.maximum(p - epsilon, 0.0), np.minimum(p + epsilon, 1.0)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 200, 3400])
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 1e6, 1e300])
def test_simplex_agrees_with_rational_arithmetic(m, scale):
  v = scale * np.random.default_rng(m).normal(size=m)
  x = _project(v).numpy()
  expected = _exact_projection(v, np.zeros(m), np.ones(m))
  np.testing.assert_allclose(x, expected, rtol=0, atol=1e-15)
  assert np.all(x >= 0.0)
  assert x.sum() == pytest.approx(1.0, abs=2e-15)


@pytest.mark.parametrize(
  ("v", "expected"),
  [
    ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ([7.0, 7.0, 7.0, 7.0], [0.25, 0.25, 0.25, 0.25]),
    ([2.0, 2.0, -1.0], [0.5, 0.5, 0.0]),
    ([1e300, 1e300, -1e300], [0.5, 0.5, 0.0]),
    ([1.7e308, -1.7e308], [1.0, 0.0]),
    ([-5.0], [1.0]),
    ([1e17 + 16, 1e17, 0.0], [1.0, 0.0, 0.0]),
    ([0.0, 0.0], [0.5, 0.5]),
  ],
)
def test_simplex_by_hand(v, expected):
  np.testing.assert_allclose(_project(v), expected, rtol=0, atol=1e-16)


@pytest.mark.parametrize("seed", range(20))
def test_box_agrees_with_rational_arithmetic(seed):
  rng = np.random.default_rng(seed)
  m = int(rng.integers(1, 60))
  p = rng.dirichlet(np.ones(m))
  lower, upper = box_around(p, rng.uniform(0, 0.3, m) * (rng.random(m) < 0.7))
  _check(10.0 ** rng.uniform(-4, 4) * rng.normal(size=m), lower, upper)


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e8, 1e12])
def test_box_keeps_its_precision_far_from_the_origin(offset):
  rng = np.random.default_rng(1)
  v = offset + rng.uniform(size=30)
  _check(v, *box_around(np.full(30, 1 / 30), 0.01))


def test_box_with_ties_and_extreme_values():
  lower = [0.0, 0.1, 0.1, 0.2, 0.0]
  upper = [0.3, 0.4, 0.4, 0.2, 1.0]
  _check([1e300, 1e300, 1e300, 1e300, 1e300], lower, upper)
  _check([-1e300, 1e300, 1e300, 0.0, 5.0], lower, upper)
  _check([0.0, 0.0, 0.0, 0.0, 0.0], lower, upper)
  _check([1.7e308, -1.7e308, 0.5, 0.5, 1e-300], lower, upper)


def test_a_box_of_one_point_gives_it_exactly():
  p = np.random.default_rng(2).dirichlet(np.ones(37))
  v = np.random.default_rng(3).normal(size=37)
  np.testing.assert_array_equal(_project_to_box(v, p, p), p)
  v = 1.7e308 * np.sign(v)
  np.testing.assert_array_equal(_project_to_box(v, p, p), p)
  np.testing.assert_array_equal(_project_to_box(v, 0.0 * p, p), p)


def test_a_point_in_the_box_stays():
  p = np.random.default_rng(4).dirichlet(np.ones(50))
  x = _project_to_box(p, *box_around(p, 0.1))
  np.testing.assert_allclose(x, p, rtol=0, atol=1e-16)


def test_an_infeasible_box_gives_its_nearest_corner():
  v = np.array([3.0, -1.0, 0.5])
  low, high = np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.3])
  np.testing.assert_array_equal(_project_to_box(v, low, np.ones(3)), low)
  np.testing.assert_array_equal(_project_to_box(v, np.zeros(3), high), high)


@pytest.mark.parametrize(
  ("lower", "upper", "expected"),
  [
    (0.1, 0.4, [0.4, 0.4, 0.1, 0.1]),
    *((0.0, upper, [1, 0, 0, 0]) for upper in (1.0, 5.0, np.inf)),
  ],
)
def test_scalar_bounds_apply_to_every_entry(lower, upper, expected):
  found = project_to_box_simplex(np.array([3.0, 1.0, 0.0, 0.0]), lower, upper)
  np.testing.assert_allclose(found, expected, atol=1e-16)


@pytest.mark.parametrize("seed", range(10))
def test_linear_gap_agrees_with_linear_programming(seed):
  rng = np.random.default_rng(seed)
  m = int(rng.integers(1, 40))
  lower, upper = box_around(rng.dirichlet(np.ones(m)), rng.uniform(0, 0.2))
  x = _project_to_box(rng.normal(size=m), lower, upper).numpy()
  gradient = np.round(rng.normal(size=m), 1)  # With ties.
  program = scipy.optimize.linprog(
    gradient,
    A_eq=np.ones((1, m)),
    b_eq=[1.0],
    bounds=np.stack([lower, upper], axis=1),
  )
  gap = _linear_gap(gradient, x - lower, upper - x, 1.0 - lower.sum())
  assert gap.numpy() == pytest.approx(gradient @ x - program.fun, abs=1e-12)
