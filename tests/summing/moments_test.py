"""Tests of streamed moments against NumPy in float64."""

import functools
from typing import Any

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
  """Returns m updates as a float64 matrix, rounded to float32 values."""
  matrix = np.random.default_rng(seed).normal(size=(m, 8))
  return matrix.astype(np.float32).astype(np.float64)


def structured(row):
  """Returns the update that has the values of `row`."""
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
  """Compares moments with their definition; the largest weight counts as 1."""
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
  covariates = np.where(e > 0, covariates, 0)
  mean = e @ covariates / e.sum()
  np.testing.assert_allclose(actual.covariate, mean, rtol=1e-12)
  centred = matrix - total / e.sum()
  comoment = (e * (covariates - mean)) @ centred
  size = (e * np.abs(covariates - mean)) @ np.abs(centred) + 1e-300
  np.testing.assert_array_less(
    np.abs(flat(actual.comoment) - comoment), 1e-5 * size
  )


NONE = -np.inf  # The log weight of a client without weight.
# Log weights and covariates.
CASES: dict[str, Any] = {
  **{
    f"{m} clients": np.random.default_rng(1).normal(size=(2, m))
    for m in (1, 2, 3, 40)
  },
  # In some orders, the largest weight comes first; in others, later or last.
  **{
    f"log weights around {offset}": (
      np.array([0, 3, -5, 8, 2, 1.0]) + offset,
      np.arange(6.0),
    )
    for offset in (-1e4, 0, 1e4)
  },
  "one beyond all others": ([-1e4, 0, 1e4, 9.99e3], [1e6, 2, 3, 4]),
  "some of no weight": ([NONE, 0.5, NONE, 1.5, NONE], [8, 2, -100, 7, 0]),
  "a huge covariate of no weight": ([NONE, 0.5], [1e30, 2]),
  # Small differences between covariates are kept.
  **{
    f"covariates around {offset}": (
      np.linspace(-1, 1, 7),
      offset + np.array([0, 1, 2, 0.5, -1, 3, 0.25]) / 8,
    )
    for offset in (1e6, -(2.0**30))
  },
}


@merge_orders
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_covariate", [True, False])
def test_sums_and_comoments(case, merged, with_covariate):
  log_weights, x = CASES[case]
  matrix = updates(len(x))
  if not with_covariate:
    x = None
  actual = merged(of_clients(log_weights, matrix, x))
  assert_are_those_of(actual, log_weights, matrix, x)


@merge_orders
def test_no_weight_at_all_gives_zeros(merged):
  actual = merged(of_clients([-np.inf] * 3, updates(3), [1.0, 2.0, 3.0]))
  assert actual.weight == 0
  assert actual.log_scale == -np.inf
  np.testing.assert_array_equal(flat(actual.total), np.zeros(8))
  np.testing.assert_array_equal(flat(actual.comoment), np.zeros(8))


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


def test_a_weight_below_the_range_of_float32_counts():
  # FedAvg-n weighs a huge update so little that all updates count equally.
  matrix = updates(3) * np.array([[1e-10], [1.0], [1e33]])
  log_weights = -np.log([1e-10, 1.0, 1e33])
  assert_are_those_of(
    in_turn(of_clients(log_weights, matrix)), log_weights, matrix
  )
