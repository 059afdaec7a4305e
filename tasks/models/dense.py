"""Fully connected classifiers."""

import functools
import math
import types
from collections.abc import Iterator, Sequence

import tensorflow as tf

from tasks import task
from tasks.models import layers
from tasks.models.names import HIDDEN_UNITS, InitialWeights


def mlp(
  input_shape: tuple[int, ...],
  hidden_units: tuple[int, ...],
  num_classes: int,
  seed: int,
  initial_weights: InitialWeights = "glorot",
) -> tf.keras.Model:
  """Builds a fully connected network.

  Without hidden layers, it is logistic regression.
  """
  inputs = [math.prod(input_shape), *hidden_units]
  initializers = _initializers(initial_weights, inputs, seed)
  return tf.keras.Sequential(
    [
      tf.keras.layers.Flatten(input_shape=input_shape),
      *(
        tf.keras.layers.Dense(units, "relu", **next(initializers))
        for units in hidden_units
      ),
      tf.keras.layers.Dense(num_classes, **next(initializers)),
    ]
  )


def _initializers(
  initial_weights: InitialWeights, inputs: Sequence[int], seed: int
) -> Iterator[dict[str, tf.keras.initializers.Initializer]]:
  """Yields each layer's initializers, by argument name."""
  if initial_weights == "glorot":
    for initializer in layers.glorot_uniform(seed):
      yield {"kernel_initializer": initializer}
    return
  layer_seeds = iter(layers.int32_seeds(seed, 2 * len(inputs)))
  for number in inputs:
    bound = 1 / math.sqrt(number)
    yield {
      name: tf.keras.initializers.RandomUniform(
        -bound, bound, next(layer_seeds)
      )
      for name in ("kernel_initializer", "bias_initializer")
    }


def mlp_double_softmax(
  input_shape: tuple[int, ...],
  hidden_units: tuple[int, ...],
  num_classes: int,
  seed: int,
  initial_weights: InitialWeights = "glorot",
) -> tf.keras.Model:
  """Builds a fully connected network with a superfluous last softmax.

  The softmax is a mistake in the code of Wang et al., "Federated Learning with
  Fair Averaging" (IJCAI 2021), on which their published numbers depend. For C
  classes, the loss never falls below log(1 + (C - 1) / e).
  """
  return tf.keras.Sequential(
    [
      mlp(input_shape, hidden_units, num_classes, seed, initial_weights),
      _Probabilities(),
    ]
  )


def dense_classifier(
  name: str,
  input_shape: tuple[int, ...],
  num_classes: int,
  seed: int,
  initial_weights: InitialWeights = "glorot",
) -> task.KerasModelFn:
  """Returns a function that builds the network `name`."""
  build = mlp_double_softmax if name.endswith("_double_softmax") else mlp
  return functools.partial(
    build, input_shape, HIDDEN_UNITS[name], num_classes, seed, initial_weights
  )


def is_dense(model: tf.keras.Model) -> bool:
  """Returns whether a model has only plain dense layers, as in this module."""
  if type(model) is not tf.keras.Sequential:
    return False
  kinds = (tf.keras.layers.Flatten, tf.keras.layers.Dense, _Probabilities)
  return all(
    is_dense(layer)
    if isinstance(layer, tf.keras.Sequential)
    else type(layer) in kinds and _is_plain(layer)
    for layer in model.layers
  )


def _is_plain(layer: tf.keras.layers.Layer) -> bool:
  extras = (
    *("kernel_regularizer", "bias_regularizer", "activity_regularizer"),
    *("kernel_constraint", "bias_constraint"),
  )
  return (
    layer.trainable
    and layer.dtype == tf.float32
    and all(getattr(layer, extra, None) is None for extra in extras)
    # Other activations may have weights or a state.
    and type(getattr(layer, "activation", None)) in _FUNCTIONS
  )


# The types of activations: a plain function, or None if there is none.
_FUNCTIONS = (types.NoneType, types.FunctionType)


class _Probabilities(tf.keras.layers.Layer):
  """A softmax layer; Keras' cross entropy would bypass Keras' own softmax."""

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    return tf.identity(tf.nn.softmax(inputs))

  def exportable(self) -> tf.keras.Model:
    """Returns an equivalent model of Keras layers, for `models.exportable`."""
    inputs = tf.keras.layers.Input(self.input_shape[1:])
    return tf.keras.Model(inputs, self.call(inputs), name=self.name)
