"""Tests of dual-cone projections and bargains, checked on the points."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tff_fair.kernels.complementarity import (
  dual_cone_projections,
  nash_bargain,
)

_GRAM = [tf.TensorSpec([None, None], tf.float64)]
_project = tf.function(dual_cone_projections, input_signature=_GRAM)
_bargain = tf.function(nash_bargain, input_signature=_GRAM)

_ROWS = np.random.default_rng(0).normal(size=(12, 30))
_SCALES = 10.0 ** np.random.default_rng(1).uniform(-30, 30, size=(12, 1))
CASES = {
  "one": _ROWS[:1],
  "independent": _ROWS,
  "dependent": _ROWS[:, :5],
  "a plane": _ROWS[:, :2],
  "no conflict": np.abs(_ROWS),
  "equal": _ROWS[[0, 0, 1, 2]],
  "opposite": _ROWS[[0, 1, 2, 2]] * [[1], [1], [1], [-3]],
  "nearly opposite": np.concatenate([-(1 + 1e-4 * _ROWS[:1]), _ROWS**0])[:5],
  "one zero": _ROWS[:4] * [[1], [0], [1], [1]],
  "all zero": np.zeros([3, 4]),
  "any scale": _ROWS * _SCALES,
  "any scale, dependent": (_ROWS * _SCALES)[:, :4],
}


@pytest.mark.parametrize("case", CASES)
def test_projections_are_those_of_the_points(case):
  points = CASES[case]
  shares = _project(points @ points.T).numpy()
  assert np.all(shares >= np.eye(len(points)))
  norms = np.linalg.norm(points, axis=1, keepdims=True)
  units = np.divide(points, norms, out=np.zeros_like(points), where=norms > 0)
  for k, unit in enumerate(units):
    added, _ = scipy.optimize.nnls(units.T, -unit, maxiter=10_000)
    found = shares[k] @ points / (norms[k] or 1)
    np.testing.assert_allclose(found, unit + added @ units, rtol=0, atol=3e-7)
    assert np.min(units @ found) > -1e-9


def test_without_conflict_nothing_is_projected():
  points = CASES["no conflict"]
  np.testing.assert_array_equal(_project(points @ points.T), np.eye(12))


def test_points_of_one_direction_share():
  points = _ROWS[[0, 1, 1, 2]] * [[-1], [1], [2], [1]]
  shares = _project(points @ points.T).numpy()
  np.testing.assert_allclose(
    shares[:, 1] - np.eye(4)[1], 2 * (shares[:, 2] - np.eye(4)[2]), atol=1e-14
  )


@pytest.mark.parametrize(
  "case",
  ["one", "independent", "no conflict", "equal", "one zero", "any scale"],
)
def test_a_bargain_solves_its_equations(case):
  points = CASES[case]
  bargain = _bargain(points @ points.T)
  c, counts = bargain.coefficients.numpy(), points.any(axis=1)
  assert np.all(c[counts] > 0)
  assert np.all(c[~counts] == 0)
  # Computed from the points: float64 may be too coarse for their Gram matrix.
  products = (c[:, None] * points) @ (c @ points)
  np.testing.assert_allclose(products[counts], 1, rtol=1e-12)
  assert bargain.error < 1e-12


@pytest.mark.parametrize("case", ["opposite", "dependent", "a plane"])
def test_without_a_common_descent_there_is_no_bargain(case):
  points = CASES[case]
  bargain = _bargain(points @ points.T)
  np.testing.assert_array_equal(bargain.coefficients, np.zeros(len(points)))
  assert bargain.error > 1e-6


def test_a_bargain_of_nobody_is_zero():
  points = CASES["all zero"]
  np.testing.assert_array_equal(_bargain(points @ points.T).coefficients, 0)
