"""Tests of streamed moments against NumPy in float64."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.small_problem import flat
from tff_fair.summing import streaming

_SPECS = {
  "a": tf.TensorSpec([3], tf.float32),
  "b": (tf.TensorSpec([2, 2], tf.float64), tf.TensorSpec([], tf.float32)),
}


def updates(m, seed=0):
  """m updates as one float64 matrix, rounded to what the layers hold."""
  matrix = np.random.default_rng(seed).normal(size=(m, 8))
  return matrix.astype(np.float32).astype(np.float64)


def structured(row):
  """The update of which `row` holds the values."""
  a, b, c = np.split(row, [3, 7])
  return {
    "a": tf.constant(a, tf.float32),
    "b": (
      tf.constant(b.reshape(2, 2), tf.float64),
      tf.constant(c[0], tf.float32),
    ),
  }


def of_clients(log_weights, matrix, covariates=None):
  if covariates is None:
    covariates = [None] * len(matrix)
  return [
    streaming.moments_of_one(
      tf.constant(log_weight, tf.float64),
      None if x is None else tf.constant(x, tf.float64),
      structured(row),
    )
    for log_weight, x, row in zip(log_weights, covariates, matrix, strict=True)
  ]


def in_turn(parts):
  with_covariate = not isinstance(parts[0].covariate, tuple)
  none = streaming.no_moments(_SPECS, with_covariate)
  return functools.reduce(streaming.merge_moments, parts, none)


def pairwise(parts):
  while len(parts) > 1:
    parts = [
      functools.reduce(streaming.merge_moments, parts[i : i + 2])
      for i in range(0, len(parts), 2)
    ]
  return parts[0]


def last_first(parts):
  return functools.reduce(lambda x, y: streaming.merge_moments(y, x), parts)


merge_orders = pytest.mark.parametrize(
  "merged", [in_turn, pairwise, last_first]
)


def assert_are_those_of(actual, log_weights, matrix, covariates=None):
  """Compares with the definition, in units of the largest weight."""
  log_weights = np.asarray(log_weights, np.float64)
  e = np.exp(log_weights - log_weights.max())
  assert actual.log_scale == log_weights.max()
  np.testing.assert_allclose(actual.weight, e.sum(), rtol=1e-12)
  total = e @ matrix
  size = e @ np.abs(matrix) + 1e-300
  np.testing.assert_array_less(np.abs(flat(actual.total) - total), 1e-5 * size)
  if covariates is None:
    assert actual.covariate == actual.comoment == ()
    return
  mean = e @ covariates / e.sum()
  np.testing.assert_allclose(actual.covariate, mean, rtol=1e-12)
  centred = matrix - total / e.sum()
  comoment = (e * (covariates - mean)) @ centred
  size = (e * np.abs(covariates - mean)) @ np.abs(centred) + 1e-300
  np.testing.assert_array_less(
    np.abs(flat(actual.comoment) - comoment), 1e-5 * size
  )


@merge_orders
@pytest.mark.parametrize("m", [1, 2, 3, 40])
def test_sums_without_covariate(m, merged):
  matrix = updates(m)
  log_weights = np.random.default_rng(1).normal(size=m)
  actual = merged(of_clients(log_weights, matrix))
  assert_are_those_of(actual, log_weights, matrix)


@merge_orders
@pytest.mark.parametrize("m", [1, 2, 3, 40])
def test_sums_and_comoments(m, merged):
  matrix = updates(m)
  log_weights, x = np.random.default_rng(1).normal(size=(2, m))
  actual = merged(of_clients(log_weights, matrix, x))
  assert_are_those_of(actual, log_weights, matrix, x)


@merge_orders
@pytest.mark.parametrize("offset", [-1e4, 0, 1e4])
def test_huge_log_weights_do_not_overflow(offset, merged):
  matrix = updates(6)
  # The largest comes first, in the middle, last, depending on the order.
  log_weights = np.array([0, 3, -5, 8, 2, 1.0]) + offset
  x = np.arange(6.0)
  assert_are_those_of(
    merged(of_clients(log_weights, matrix, x)), log_weights, matrix, x
  )


@merge_orders
def test_a_weight_beyond_all_others_leaves_them_out(merged):
  matrix = updates(4)
  log_weights = np.array([-1e4, 0, 1e4, 9.99e3])
  actual = merged(of_clients(log_weights, matrix, [1e6, 2, 3, 4]))
  assert actual.log_scale == 1e4
  np.testing.assert_allclose(actual.weight, 1 + np.exp(-10))
  np.testing.assert_allclose(
    flat(actual.total), matrix[2] + np.exp(-10) * matrix[3], rtol=1e-5
  )


@merge_orders
def test_clients_of_no_weight_leave_no_trace(merged):
  matrix = updates(5)
  log_weights = np.array([-np.inf, 0.5, -np.inf, 1.5, -np.inf])
  x = np.array([8.0, 2.0, -100.0, 7.0, 0.0])
  weighs = np.isfinite(log_weights)
  assert_are_those_of(
    merged(of_clients(log_weights, matrix, x)),
    log_weights[weighs],
    matrix[weighs],
    x[weighs],
  )


@merge_orders
def test_no_weight_at_all_gives_zeros(merged):
  actual = merged(of_clients([-np.inf] * 3, updates(3), [1.0, 2.0, 3.0]))
  assert actual.weight == 0
  assert actual.log_scale == -np.inf
  np.testing.assert_array_equal(flat(actual.total), np.zeros(8))
  np.testing.assert_array_equal(flat(actual.comoment), np.zeros(8))


@merge_orders
@pytest.mark.parametrize("offset", [1e6, -(2.0**30)])
def test_small_differences_of_huge_covariates_are_kept(offset, merged):
  matrix = updates(7)
  x = offset + np.array([0, 1, 2, 0.5, -1, 3, 0.25]) / 8
  log_weights = np.linspace(-1, 1, 7)
  assert_are_those_of(
    merged(of_clients(log_weights, matrix, x)), log_weights, matrix, x
  )


@merge_orders
def test_equal_covariates_have_no_comoment_at_all(merged):
  actual = merged(of_clients(np.linspace(-1, 1, 5), updates(5), [0.1] * 5))
  assert actual.covariate == 0.1
  np.testing.assert_array_equal(flat(actual.comoment), np.zeros(8))


@pytest.mark.parametrize("with_covariate", [True, False])
def test_merging_with_none_changes_nothing(with_covariate):
  x = [1.5, 2.5] if with_covariate else None
  some = in_turn(of_clients([0.5, 1.5], updates(2), x))
  none = streaming.no_moments(_SPECS, with_covariate)
  for merged in (
    streaming.merge_moments(some, none),
    streaming.merge_moments(none, some),
  ):
    tf.nest.map_structure(np.testing.assert_array_equal, merged, some)


def test_dtypes_and_structure_are_those_of_the_updates():
  some = in_turn(of_clients([0.5, 1.5], updates(2), [1.0, 2.0]))
  none = streaming.no_moments(_SPECS, with_covariate=True)
  tf.nest.assert_same_structure(none, some)
  for x, y in zip(tf.nest.flatten(none), tf.nest.flatten(some), strict=True):
    assert (x.dtype, x.shape) == (y.dtype, y.shape)


def test_a_huge_covariate_of_no_weight_leaves_no_trace():
  matrix = updates(2)
  merged = pairwise(of_clients([-np.inf, 0.5], matrix, [1e30, 2.0]))
  assert_are_those_of(merged, [0.5], matrix[1:], np.array([2.0]))


def test_a_weight_below_the_range_of_float32_counts():
  # FedAvg-n weighs a huge update so little that all count alike.
  matrix = updates(3) * np.array([[1e-10], [1.0], [1e33]])
  log_weights = -np.log([1e-10, 1.0, 1e33])
  assert_are_those_of(
    in_turn(of_clients(log_weights, matrix)), log_weights, matrix
  )
