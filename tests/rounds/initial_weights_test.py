"""Tests of the distributor that remembers the weights of its first round."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.rounds import composition


def weights(value):
  """Returns weights of several dtypes and shapes, filled with `value`."""
  return tff.learning.models.ModelWeights(
    trainable=(
      np.full([2, 3], value, np.float32),
      np.full([], value, np.float64),
    ),
    non_trainable=(np.full([2], value, np.int32),),
  )


@functools.cache
def process():
  specs = tf.nest.map_structure(
    lambda x: tf.TensorSpec(x.shape, x.dtype), weights(0)
  )
  return composition.build_with_initial_weights(
    tff.types.tensorflow_to_type(specs)
  )


@functools.cache
def to_clients():
  """Returns a round in which clients return the weights that they receive."""
  state_type, weights_type = process().next.type_signature.parameter

  @tff.tensorflow.computation(
    process().next.type_signature.result.result.member, np.int32
  )
  def receive(received, _):
    return received

  @tff.federated_computation(
    state_type, weights_type, tff.FederatedType(np.int32, tff.CLIENTS)
  )
  def run(state, weights, clients):
    output = process().next(state, weights)
    received = tff.federated_map(receive, (output.result, clients))
    return output.state, received

  return run


def send(state, value):
  """Runs one round; returns the new state, and the weights that clients get."""
  state, (received, other) = to_clients()(state, weights(value), [0, 1])
  tf.nest.map_structure(np.testing.assert_array_equal, received, other)
  return state, received


def assert_same(actual, value):
  for x, y in zip(
    tf.nest.flatten(actual), tf.nest.flatten(weights(value)), strict=True
  ):
    np.testing.assert_array_equal(x, y)
    assert np.asarray(x).dtype == y.dtype


def test_types():
  signature = process().next.type_signature
  weights_type = signature.parameter[1].member
  assert signature.result.result == tff.FederatedType(
    tff.to_type(
      collections.OrderedDict(current=weights_type, initial=weights_type)
    ),
    tff.CLIENTS,
    all_equal=True,
  )


@pytest.mark.parametrize("first", [3, 0, -1])
def test_first_weights_are_sent_along_for_ever(first):
  state = process().initialize()
  for value in (first, 7, -2, first, 100):
    state, sent = send(state, value)
    assert_same(sent["current"], value)
    assert_same(sent["initial"], first)
