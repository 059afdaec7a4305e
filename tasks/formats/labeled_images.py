"""Images with their labels, as readers return them."""

import dataclasses
from typing import Any

import numpy as np

from tasks.data_error import DataError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LabeledImages:
  """Images in memory, in the order of their files.

  Attributes:
    images: uint8[n, height, width, channels].
    labels: Class numbers, int32[n].
    source: The files, for error messages.
  """

  images: np.ndarray
  labels: np.ndarray
  source: str

  def __post_init__(self) -> None:
    if len(self.images) != len(self.labels):
      raise DataError(
        f"{self.source}: {len(self.images):,} images, but "
        f"{len(self.labels):,} labels."
      )

  def resized(self, size: int) -> "LabeledImages":
    """Returns the images in another height and width.

    Args:
      size: Height and width.
    """
    return dataclasses.replace(self, images=resize(self.images, size))


def resize(images: Any, size: int) -> np.ndarray:
  """Returns images in another size, interpolated linearly.

  Args:
    images: uint8[..., height, width, channels], one image or several.
    size: New height and width.

  Returns:
    uint8[..., size, size, channels].
  """
  import tensorflow as tf  # noqa: PLC0415

  # Antialiased: of a smaller image each pixel is a mean.
  floats = tf.image.resize(images, [size, size], antialias=True)
  return tf.cast(tf.clip_by_value(tf.round(floats), 0, 255), tf.uint8).numpy()
