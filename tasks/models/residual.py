"""Residual networks with group normalization.

He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016); Hsieh et
al., "The Non-IID Data Quagmire of Decentralized Machine Learning" (ICML 2020)
for group instead of batch normalization, whose statistics mix clients.
"""

from collections.abc import Iterator

import tensorflow as tf

from tasks.models import seeds

_STAGES = (64, 128, 256, 512)
_BLOCKS_PER_STAGE = 2
# From here on, images are made smaller before the first stage, as in the paper;
# below, the first convolution is 3 x 3 and nothing is pooled (usual for CIFAR).
_LARGE_IMAGE = 96


def resnet18(
  input_shape: tuple[int, int, int],
  num_classes: int,
  seed: int,
  *,
  num_groups: int = 2,
) -> tf.keras.Model:
  """ResNet-18 with group normalization.

  11,173,962 weights for 32 x 32 x 3 images and 10 classes.

  Args:
    input_shape: Height, width and channels of an image.
    num_classes: Number of logits.
    seed: Seed of the initial weights.
    num_groups: Groups of channels that are normalized together; two, as in
      Hsieh et al. and TFF's CIFAR-100 baseline.

  Returns:
    An uncompiled model that takes float32[n, *input_shape].
  """
  initializers = seeds.he_normal(seed)
  inputs = tf.keras.Input(input_shape)
  if min(input_shape[:2]) < _LARGE_IMAGE:
    x = _conv(inputs, _STAGES[0], 3, 1, initializers)
    x = tf.nn.relu(_normalize(x, num_groups))
  else:
    x = _conv(inputs, _STAGES[0], 7, 2, initializers)
    x = tf.nn.relu(_normalize(x, num_groups))
    x = tf.keras.layers.MaxPooling2D(3, 2, padding="same")(x)
  for stage, filters in enumerate(_STAGES):
    for block in range(_BLOCKS_PER_STAGE):
      strides = 2 if stage > 0 and block == 0 else 1
      x = _basic_block(x, filters, strides, num_groups, initializers)
  x = tf.keras.layers.GlobalAveragePooling2D()(x)
  outputs = tf.keras.layers.Dense(
    num_classes, kernel_initializer=next(initializers)
  )(x)
  return tf.keras.Model(inputs, outputs)


def _basic_block(
  x: tf.Tensor,
  filters: int,
  strides: int,
  num_groups: int,
  initializers: Iterator[tf.keras.initializers.Initializer],
) -> tf.Tensor:
  shortcut = x
  x = _conv(x, filters, 3, strides, initializers)
  x = tf.nn.relu(_normalize(x, num_groups))
  x = _normalize(_conv(x, filters, 3, 1, initializers), num_groups)
  if strides > 1 or shortcut.shape[-1] != filters:
    shortcut = _conv(shortcut, filters, 1, strides, initializers)
    shortcut = _normalize(shortcut, num_groups)
  return tf.nn.relu(x + shortcut)


def _conv(
  x: tf.Tensor,
  filters: int,
  size: int,
  strides: int,
  initializers: Iterator[tf.keras.initializers.Initializer],
) -> tf.Tensor:
  # Without biases: the normalization that follows has them.
  return tf.keras.layers.Conv2D(
    filters,
    size,
    strides,
    padding="same",
    use_bias=False,
    kernel_initializer=next(initializers),
  )(x)


def _normalize(x: tf.Tensor, num_groups: int) -> tf.Tensor:
  return tf.keras.layers.GroupNormalization(num_groups, epsilon=1e-5)(x)
