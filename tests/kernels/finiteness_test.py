"""Tests of whether numbers are finite."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import norms

FINITE = (
  np.array([[3.4e38, -3.4e38]], np.float32),
  {"a": np.float64(-1e308), "b": np.array([65504, 6e-8], np.float16)},
  np.zeros([0], np.float32),
)


def test_the_ends_of_the_ranges_are_finite():
  assert norms.all_finite(FINITE)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(3))
def test_one_value_that_is_not_is_found_anywhere(value, place):
  layers = [np.array(layer) for layer in tf.nest.flatten(FINITE)]
  layers[place].flat[-1] = value
  assert not norms.all_finite(tf.nest.pack_sequence_as(FINITE, layers))


def test_in_a_graph_of_unknown_shape():
  all_finite = tf.function(
    norms.all_finite, input_signature=[[tf.TensorSpec(None, tf.float32)]]
  )
  assert all_finite([np.ones([2, 3], np.float32)])
  assert not all_finite([np.float32(np.nan)])
