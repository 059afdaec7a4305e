"""A model of your own, for any task whose shapes it fits.

    python -m binaries.train --task=digits --model=examples/own_model.py:build

The function takes any of `input_shape`, `num_classes` and `seed`, or nothing.
The model's outputs are logits. The run's seed determines the initial weights,
even though no layer here has a seed.
"""

import math

import tensorflow as tf


def build(
  input_shape: tuple[int, ...], num_classes: int | None
) -> tf.keras.Model:
  """Returns a network with normalized hidden layers and a shortcut.

  Args:
    input_shape: Shape of one example.
    num_classes: Number of logits; None if the task predicts a number.
  """
  inputs = tf.keras.Input(input_shape)
  x = tf.keras.layers.Reshape([math.prod(input_shape)])(inputs)
  first = tf.keras.layers.Dense(32, "relu")(x)
  # Batch normalization would use the statistics of one client's examples.
  second = tf.keras.layers.Dense(32, "relu")(
    tf.keras.layers.LayerNormalization()(first)
  )
  joined = tf.keras.layers.Add()([first, second])
  return tf.keras.Model(inputs, tf.keras.layers.Dense(num_classes or 1)(joined))
