"""Runs rounds of a finalizer on weights of three numbers."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem


def trainable(values):
  """Returns trainable weights, or a direction, from three numbers."""
  return (
    np.array(values[:2], np.float32),
    collections.OrderedDict(scalar=np.float32(values[2])),
  )


def weights(values=(1.0, 2.0, -3.0), count=5):
  """Returns model weights with trainable values and an untrained count."""
  return tff.learning.models.ModelWeights(
    trainable(values), non_trainable=(np.int32(count),)
  )


WEIGHTS_TYPE = tff.types.tensorflow_to_type(
  tf.nest.map_structure(
    lambda x: tf.TensorSpec(np.shape(x), np.asarray(x).dtype), weights()
  )
)
ZERO = weights((0.0, 0.0, 0.0))


flat = small_problem.flat


def run(process, state, model_weights, values, *, num_clients=3, **scalars):
  """Runs a step along `values`, with `scalars` as if from a rule."""
  return process.next(
    state,
    model_weights,
    collections.OrderedDict(
      update=trainable(values),
      num_clients=np.int32(num_clients),
      scalars=collections.OrderedDict(
        (name, np.float32(value)) for name, value in scalars.items()
      ),
    ),
  )


def assert_same_state(actual, expected):
  tf.nest.map_structure(np.testing.assert_array_equal, actual, expected)
