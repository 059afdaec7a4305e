"""Keras classifiers whose initial weights depend on a seed alone.

TFF builds a model inside graphs that run in another process; only initializers
that carry their own seed give the same weights there, run after run.
The EMNIST models are those of `tff.simulation.baselines.emnist` (same layers,
same shapes) with logits instead of probabilities as outputs.
"""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks import task


def model_fn(
  build: Callable[[], tf.keras.Model], element_spec: task.ElementSpec
) -> task.ModelFn:
  """Returns the TFF form of a classifier, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model whose outputs are logits.
    element_spec: Specs of `(x, y)`, y being class numbers.

  Returns:
    A function that returns a new model with softmax cross entropy as its loss
    and accuracy as its metric.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=element_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

  return build_model


def mlp(
  input_shape: tuple[int, ...],
  hidden_units: tuple[int, ...],
  num_classes: int,
  seed: int,
) -> tf.keras.Model:
  """Fully connected network; without hidden layers, logistic regression.

  Args:
    input_shape: Shape of one example.
    hidden_units: Width of each hidden layer.
    num_classes: Number of logits.
    seed: Seed of the initial weights.

  Returns:
    An uncompiled model.
  """
  initializers = _glorot_uniform(seed)
  return tf.keras.Sequential(
    [
      tf.keras.layers.Flatten(input_shape=input_shape),
      *(
        tf.keras.layers.Dense(
          units, "relu", kernel_initializer=next(initializers)
        )
        for units in hidden_units
      ),
      tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers)),
    ]
  )


def fedavg_cnn(num_classes: int, seed: int) -> tf.keras.Model:
  """The CNN of McMahan et al. (AISTATS 2017) for 28 x 28 images.

  1,663,370 weights with 10 classes. Model "cnn" of TFF's EMNIST baselines.

  Args:
    num_classes: Number of logits.
    seed: Seed of the initial weights.

  Returns:
    An uncompiled model that takes float32[n, 28, 28, 1].
  """
  initializers = _glorot_uniform(seed)

  def conv(filters: int, **kwargs: object) -> tf.keras.layers.Layer:
    return tf.keras.layers.Conv2D(
      filters,
      5,
      padding="same",
      activation="relu",
      kernel_initializer=next(initializers),
      **kwargs,
    )

  return tf.keras.Sequential(
    [
      conv(32, input_shape=(28, 28, 1)),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      conv(64),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(512, "relu", kernel_initializer=next(initializers)),
      tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers)),
    ]
  )


def dropout_cnn(num_classes: int, seed: int) -> tf.keras.Model:
  """The CNN with dropout of Reddi et al. (ICLR 2021) for 28 x 28 images.

  1,199,882 weights with 10 classes. Model "cnn_dropout" of TFF's EMNIST
  baselines, with dropout that repeats.

  Args:
    num_classes: Number of logits.
    seed: Seed of the initial weights and of the dropout.

  Returns:
    An uncompiled model that takes float32[n, 28, 28, 1].
  """
  initializers = _glorot_uniform(seed)
  conv1, conv2, dense, logits = (next(initializers) for _ in range(4))
  return tf.keras.Sequential(
    [
      tf.keras.layers.Conv2D(
        32,
        3,
        activation="relu",
        kernel_initializer=conv1,
        input_shape=(28, 28, 1),
      ),
      tf.keras.layers.Conv2D(
        64, 3, activation="relu", kernel_initializer=conv2
      ),
      tf.keras.layers.MaxPooling2D(2),
      RepeatableDropout(0.25, seed=seed),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(128, "relu", kernel_initializer=dense),
      RepeatableDropout(0.5, seed=seed),
      tf.keras.layers.Dense(num_classes, kernel_initializer=logits),
    ]
  )


class RepeatableDropout(tf.keras.layers.Layer):
  """Dropout whose mask is a function of its input and a seed.

  TFF starts the generator of Keras' dropout anew for every client in every
  round: with a seed all of them get the same masks, without one no run repeats.
  Here the input's own bits choose the mask: it changes with every batch and
  model, and a run repeats.
  """

  def __init__(self, rate: float, *, seed: int) -> None:
    super().__init__()
    self._rate = rate
    self._seed = _int32_seeds(seed, 1)[0]

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Zeroes a share `rate` of float32 inputs and scales the others up."""
    if not training:
      return inputs
    # Integers wrap round: the sum is the same in whichever order it is taken.
    fingerprint = tf.reduce_sum(tf.bitcast(inputs, tf.int32))
    keep = self._rate <= tf.random.stateless_uniform(
      tf.shape(inputs), seed=tf.stack([self._seed, fingerprint])
    )
    return tf.where(keep, inputs / (1.0 - self._rate), 0.0)


def _glorot_uniform(seed: int) -> Iterator[tf.keras.initializers.Initializer]:
  for layer_seed in _int32_seeds(seed, 16):
    yield tf.keras.initializers.GlorotUniform(layer_seed)


def _int32_seeds(seed: int, count: int) -> list[int]:
  # Hashed, so that layer 1 under seed 0 is not layer 0 under seed 1.
  words = np.random.SeedSequence(seed).generate_state(count, np.uint32)
  return [int(word >> 1) for word in words]
