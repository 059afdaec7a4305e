"""Convolutional classifiers.

The models for EMNIST have the layers and shapes of
`tff.simulation.baselines.emnist`, with logits instead of probabilities.
"""

import functools
from collections.abc import Iterator

import tensorflow as tf

from tasks.models import layers


def fedavg_cnn(
  num_classes: int,
  seed: int,
  *,
  input_shape: tuple[int, ...] = (28, 28, 1),
  dense_units: int = 512,
) -> tf.keras.Model:
  """Builds the CNN of McMahan et al. (AISTATS 2017).

  It has two convolutions and two dense layers: 1,663,370 weights with 10
  classes and 28 x 28 images, like the model "cnn" of TFF's EMNIST baselines.
  LEAF's has 2,048 dense units.
  """
  initializers = layers.glorot_uniform(seed)
  conv = functools.partial(
    tf.keras.layers.Conv2D, kernel_size=5, padding="same", activation="relu"
  )
  return tf.keras.Sequential(
    [
      conv(32, kernel_initializer=next(initializers), input_shape=input_shape),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      conv(64, kernel_initializer=next(initializers)),
      tf.keras.layers.MaxPooling2D(2, padding="same"),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(
        dense_units, "relu", kernel_initializer=next(initializers)
      ),
      tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers)),
    ]
  )


def dropout_cnn(num_classes: int, seed: int) -> tf.keras.Model:
  """Builds the CNN with dropout of Reddi et al. (ICLR 2021) for 28 x 28 images.

  It has 1,199,882 weights with 10 classes: the model "cnn_dropout" of TFF's
  EMNIST baselines, with repeatable dropout.
  """
  initializers = layers.glorot_uniform(seed)
  conv1, conv2, dense, logits = (next(initializers) for _ in range(4))
  conv = functools.partial(
    tf.keras.layers.Conv2D, kernel_size=3, activation="relu"
  )
  return tf.keras.Sequential(
    [
      conv(32, kernel_initializer=conv1, input_shape=(28, 28, 1)),
      conv(64, kernel_initializer=conv2),
      tf.keras.layers.MaxPooling2D(2),
      layers.RepeatableDropout(0.25, seed=seed),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(128, "relu", kernel_initializer=dense),
      layers.RepeatableDropout(0.5, seed=seed),
      tf.keras.layers.Dense(num_classes, kernel_initializer=logits),
    ]
  )


_RESNET_STAGES = (64, 128, 256, 512)
_BLOCKS_PER_STAGE = 2
_GROUPS = 2
# Images of this size or more are downsampled before the first stage, as in the
# paper on ResNets; for smaller ones, the first convolution is 3 x 3, and there
# is no pooling after it.
_LARGE_IMAGE = 96


def resnet18(
  input_shape: tuple[int, ...], num_classes: int, seed: int
) -> tf.keras.Model:
  """Builds a ResNet-18 with group normalization.

  It has 11,173,962 weights for 32 x 32 x 3 images and 10 classes. Channels are
  normalized in two groups, as in Hsieh et al. and TFF's CIFAR-100 baseline.
  """
  initializers = layers.he_normal(seed)
  inputs = tf.keras.Input(input_shape)
  is_large = min(input_shape[:2]) >= _LARGE_IMAGE
  size, strides = (7, 2) if is_large else (3, 1)
  x = _normalized(inputs, _RESNET_STAGES[0], size, strides, initializers)
  x = tf.nn.relu(x)
  if is_large:
    x = tf.keras.layers.MaxPooling2D(3, 2, padding="same")(x)
  for stage, filters in enumerate(_RESNET_STAGES):
    for block in range(_BLOCKS_PER_STAGE):
      strides = 2 if stage > 0 and block == 0 else 1
      x = _basic_block(x, filters, strides, initializers)
  x = tf.keras.layers.GlobalAveragePooling2D()(x)
  outputs = tf.keras.layers.Dense(
    num_classes, kernel_initializer=next(initializers)
  )(x)
  return tf.keras.Model(inputs, outputs)


def _basic_block(
  x: tf.Tensor,
  filters: int,
  strides: int,
  initializers: Iterator[tf.keras.initializers.Initializer],
) -> tf.Tensor:
  shortcut = x
  x = tf.nn.relu(_normalized(x, filters, 3, strides, initializers))
  x = _normalized(x, filters, 3, 1, initializers)
  if strides > 1 or shortcut.shape[-1] != filters:
    shortcut = _normalized(shortcut, filters, 1, strides, initializers)
  return tf.nn.relu(x + shortcut)


def _normalized(
  x: tf.Tensor,
  filters: int,
  size: int,
  strides: int,
  initializers: Iterator[tf.keras.initializers.Initializer],
) -> tf.Tensor:
  """Applies a convolution without biases, and group normalization."""
  x = tf.keras.layers.Conv2D(
    filters,
    size,
    strides,
    padding="same",
    use_bias=False,
    kernel_initializer=next(initializers),
  )(x)
  return tf.keras.layers.GroupNormalization(_GROUPS, epsilon=1e-5)(x)


# Filters of the convolutions in each stage, which ends with a pooling.
_VGG_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))


def vgg11(
  input_shape: tuple[int, ...], num_classes: int, seed: int
) -> tf.keras.Model:
  """Builds a VGG-11 without normalization.

  It has 9,225,610 weights for 32 x 32 x 3 images and 10 classes.
  """
  initializers = layers.he_normal(seed)
  conv = functools.partial(
    tf.keras.layers.Conv2D, kernel_size=3, padding="same", activation="relu"
  )
  model = tf.keras.Sequential([tf.keras.Input(input_shape)])
  for stage in _VGG_STAGES:
    for filters in stage:
      model.add(conv(filters, kernel_initializer=next(initializers)))
    model.add(tf.keras.layers.MaxPooling2D(2))
  model.add(tf.keras.layers.Flatten())
  model.add(
    tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers))
  )
  return model
