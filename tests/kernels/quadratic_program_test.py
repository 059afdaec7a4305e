"""Tests of quadratic programs with a linear term on the simplex."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import quadratic_program


def solve(gram, linear):
  solution = quadratic_program.minimize(
    tf.constant(gram, tf.float64), tf.constant(linear, tf.float64), 0.0, 1.0
  )
  return solution.coefficients.numpy(), float(solution.gap)


def gap_of(gram, linear, x):
  """Returns the Frank-Wolfe gap at x, over the simplex (see `Minimum.gap`)."""
  gradient = 2 * gram @ x + linear
  return gradient @ x - gradient.min()


@pytest.mark.parametrize("m", [1, 2, 3, 30])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("share", [0.0, 1e-6, 1.0, 1e6])
def test_the_gap_closes(m, scale, share):
  rng = np.random.default_rng(m)
  vectors = rng.normal(size=(m, 2))  # Gives a low rank.
  gram = scale * vectors @ vectors.T
  linear = scale * share * rng.normal(size=m)
  x, gap = solve(gram, linear)
  assert np.all(x >= 0)
  assert x.sum() == pytest.approx(1, abs=1e-14)
  largest = max(gram.diagonal().max(), np.ptp(linear))
  assert gap_of(gram, linear, x) <= 1e-10 * largest
  assert gap == pytest.approx(gap_of(gram, linear, x), abs=1e-12 * largest)


@pytest.mark.parametrize(
  ("squares", "linear", "expected"),
  [
    # x1 = t, x2 = 1 - t: t^2 + 2 (1 - t)^2 + t has its minimum at t = 1/2.
    ([1.0, 2.0], [1.0, 0.0], [0.5, 0.5]),
    # Without curvature, the least linear term gets all the weight.
    ([0.0, 0.0, 0.0], [3.0, 1.0, 2.0], [0, 1, 0]),
  ],
)
def test_a_known_minimum(squares, linear, expected):
  x, _ = solve(np.diag(squares), linear)
  np.testing.assert_allclose(x, expected, atol=1e-9)


def test_a_constant_in_the_linear_term_changes_nothing():
  gram = np.diag([1.0, 2.0, 3.0])
  linear = np.array([0.1, -0.2, 0.3])
  np.testing.assert_allclose(
    solve(gram, linear)[0], solve(gram, linear + 1e6)[0], atol=1e-8
  )
