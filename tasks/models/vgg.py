"""VGG-11 for small images.

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
Recognition" (ICLR 2015), configuration A. As is usual for 32 x 32 images, one
dense layer takes the place of the three of 4,096 units; AdaFedAdam's "slight
modifications" are in a figure only.
"""

import tensorflow as tf

from tasks.models import seeds

# Filters of each convolution, by stage; a pooling ends each stage.
_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))


def vgg11(
  input_shape: tuple[int, int, int], num_classes: int, seed: int
) -> tf.keras.Model:
  """VGG-11 without normalization.

  9,225,610 weights for 32 x 32 x 3 images and 10 classes.

  Args:
    input_shape: Height, width and channels of an image, at least 32 x 32.
    num_classes: Number of logits.
    seed: Seed of the initial weights. He et al.'s: from Glorot's, eight layers
      without normalization hardly start to learn.

  Returns:
    An uncompiled model that takes float32[n, *input_shape].
  """
  initializers = seeds.he_normal(seed)
  model = tf.keras.Sequential([tf.keras.Input(input_shape)])
  for stage in _STAGES:
    for filters in stage:
      model.add(
        tf.keras.layers.Conv2D(
          filters,
          3,
          padding="same",
          activation="relu",
          kernel_initializer=next(initializers),
        )
      )
    model.add(tf.keras.layers.MaxPooling2D(2))
  model.add(tf.keras.layers.Flatten())
  model.add(
    tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers))
  )
  return model
