"""Tests of minimum-norm solutions of systems with a Gram matrix."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import min_norm_solve

_solve = tf.function(
  min_norm_solve,
  input_signature=[
    tf.TensorSpec([None, None], tf.float64),
    tf.TensorSpec([None], tf.float64),
  ],
)


def _gram(m, d, seed=0):
  points = np.random.default_rng(seed).normal(size=(m, d))
  return points @ points.T


@pytest.mark.parametrize("m", [1, 2, 10, 50, 200])
def test_a_regular_system(m):
  gram, rhs = _gram(m, 2 * m), np.random.default_rng(1).uniform(0.1, 3, m)
  result = _solve(gram, rhs)
  np.testing.assert_allclose(
    result.solution, np.linalg.solve(gram, rhs), rtol=1e-10, atol=1e-13
  )
  assert result.relative_residual.numpy() < 1e-12


@pytest.mark.parametrize(("m", "d"), [(3, 1), (20, 7), (200, 50), (100, 99)])
def test_a_singular_system_with_solutions_gives_the_shortest(m, d):
  gram = _gram(m, d)
  rhs = gram @ np.random.default_rng(2).normal(size=m)
  result = _solve(gram, rhs)
  expected = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) @ rhs
  np.testing.assert_allclose(result.solution, expected, rtol=0, atol=1e-9)
  assert result.relative_residual.numpy() < 1e-12


_LARGEST = np.finfo(np.float64).max


@pytest.mark.parametrize(
  ("gram", "rhs", "solution", "residual"),
  [
    # Equal rows get equal coefficients; unequal right sides leave a residual.
    (np.full((2, 2), 4.0), [1, 1], [0.125, 0.125], 0),
    (np.ones((2, 2)), [1, 3], [1, 1], np.sqrt(2 / 10)),
    (np.zeros((1, 1)), [1], [0], 1),
    (np.zeros((4, 4)), [1, 2, 3, 4], [0, 0, 0, 0], 1),
    (np.zeros((3, 3)), [0, 0, 0], [0, 0, 0], 0),
    (_gram(3, 5), [0, 0, 0], [0, 0, 0], 0),
    (_gram(3, 1), [0, 0, 0], [0, 0, 0], 0),
    # The coefficient of a zero row is 0.
    (np.diag([2.0, 0, 5]), [1, 0, 1], [0.5, 0, 0.2], 0),
    # Entries beyond the range of float64 take its largest value.
    (
      np.diag([1e-300, 1e-300, 0]),
      [1e200, -1e200, 0],
      [_LARGEST, -_LARGEST, 0],
      None,
    ),
    # An eigenvalue that is negative by rounding counts as 0.
    (np.diag([1.0, -1e-15]), [1, 1], [1, 0], None),
  ],
)
def test_hard_systems(gram, rhs, solution, residual):
  found = _solve(gram, np.asarray(rhs, float))
  np.testing.assert_allclose(found.solution, solution, rtol=1e-14, atol=1e-16)
  if residual is not None:
    assert found.relative_residual.numpy() == pytest.approx(residual, abs=1e-15)


@pytest.mark.parametrize("gram_scale", [1e-300, 1e-60, 1e-30, 1e60, 1e300])
@pytest.mark.parametrize("rhs_scale", [1e-200, 1e-3, 1e60])
def test_scales_only_scale_the_solution(gram_scale, rhs_scale):
  gram, rhs = _gram(20, 7), np.random.default_rng(3).normal(size=20)
  reference = _solve(gram, rhs)
  result = _solve(gram_scale * gram, rhs_scale * rhs)
  with np.errstate(over="ignore", under="ignore"):
    factor = np.divide(rhs_scale, gram_scale)
    expected = np.nan_to_num(factor * reference.solution.numpy())
  np.testing.assert_allclose(result.solution, expected, rtol=1e-9, atol=1e-300)
  assert result.relative_residual.numpy() == pytest.approx(
    reference.relative_residual.numpy(), rel=1e-9
  )


def test_eigenvalues_at_the_cutoff():
  gram, rhs = np.diag([1.0, 1e-5, 1e-7]), np.array([1.0, 1.0, 1.0])
  for cutoff, expected in (
    (1e-12, [1.0, 1e5, 1e7]),
    (1e-6, [1.0, 1e5, 0.0]),
    (1e-3, [1.0, 0.0, 0.0]),
  ):
    solution = min_norm_solve(gram, rhs, relative_cutoff=cutoff).solution
    np.testing.assert_allclose(solution, expected, rtol=1e-12)


def test_the_order_does_not_matter():
  gram, rhs = _gram(30, 12), np.random.default_rng(4).uniform(size=30)
  order = np.random.default_rng(5).permutation(30)
  permuted = _solve(gram[np.ix_(order, order)], rhs[order])
  np.testing.assert_allclose(
    permuted.solution, _solve(gram, rhs).solution.numpy()[order], atol=1e-12
  )
