"""Convolutional classifiers of two layers.

Those for EMNIST are the models of `tff.simulation.baselines.emnist` (same
layers, same shapes) with logits instead of probabilities as outputs.
"""

import tensorflow as tf

from tasks.models import dropout, seeds


def fedavg_cnn(
  num_classes: int,
  seed: int,
  *,
  input_shape: tuple[int, int, int] = (28, 28, 1),
  dense_units: int = 512,
) -> tf.keras.Model:
  """The CNN of McMahan et al. (AISTATS 2017): two layers, pooled, two dense.

  1,663,370 weights with 10 classes for 28 x 28 images: model "cnn" of TFF's
  EMNIST baselines. LEAF's has 2,048 dense units.

  Args:
    num_classes: Number of logits.
    seed: Seed of the initial weights.
    input_shape: Height, width and channels of an image.
    dense_units: Width of the dense layer before the logits.

  Returns:
    An uncompiled model that takes float32[n, *input_shape].
  """
  initializers = seeds.glorot_uniform(seed)

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
      conv(32, input_shape=input_shape),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      conv(64),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(
        dense_units, "relu", kernel_initializer=next(initializers)
      ),
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
  initializers = seeds.glorot_uniform(seed)
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
      dropout.RepeatableDropout(0.25, seed=seed),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(128, "relu", kernel_initializer=dense),
      dropout.RepeatableDropout(0.5, seed=seed),
      tf.keras.layers.Dense(num_classes, kernel_initializer=logits),
    ]
  )
