"""Tests of norms of client updates."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import norms


def test_squared_norm_runs_over_all_layers():
  rng = np.random.default_rng(0)
  layers = (
    rng.normal(size=[3, 2]),
    {"a": rng.normal(size=[5]).astype(np.float32), "b": np.float16(0.25)},
    np.zeros([0, 4], np.float32),
  )
  actual = norms.squared_norm(tf.nest.map_structure(tf.constant, layers))
  wanted = sum(np.sum(np.float64(x) ** 2) for x in tf.nest.flatten(layers))
  assert actual.dtype == tf.float64
  np.testing.assert_allclose(actual, wanted, rtol=1e-14)


# The ends of float32's range, and a sum that would stop at 2^24 in float32.
@pytest.mark.parametrize(
  ("value", "size"), [(3.4e38, 4), (1.2e-38, 4), (1.0, 2**25)]
)
def test_squares_of_all_floats_are_in_range(value, size):
  actual = norms.squared_norm([tf.fill([size], np.float32(value))])
  wanted = size * np.float64(np.float32(value)) ** 2
  np.testing.assert_allclose(actual, wanted, rtol=1e-14)


def test_inverse_norms():
  squared = np.array([4.0, 1e-300, 1e300, 1e-90, 0.25])
  actual = norms.inverse_norms(tf.constant([*squared, 0.0], tf.float64))
  np.testing.assert_allclose(actual, [*squared**-0.5, 0.0], rtol=1e-14)
  assert norms.inverse_norms(tf.zeros([0], tf.float64)).shape == [0]


FINITE = (
  np.array([[3.4e38, -3.4e38]], np.float32),
  {"a": np.float64(-1e308), "b": np.array([65504, 6e-8], np.float16)},
  np.zeros([0], np.float32),
)


def test_the_ends_of_the_ranges_are_finite():
  assert norms.all_finite(FINITE)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(3))
def test_one_non_finite_value_is_found_anywhere(value, place):
  layers = [np.array(layer) for layer in tf.nest.flatten(FINITE)]
  layers[place].flat[-1] = value
  assert not norms.all_finite(tf.nest.pack_sequence_as(FINITE, layers))


def test_in_a_graph_of_unknown_shape():
  all_finite = tf.function(
    norms.all_finite, input_signature=[[tf.TensorSpec(None, tf.float32)]]
  )
  assert all_finite([np.ones([2, 3], np.float32)])
  assert not all_finite([np.float32(np.nan)])
