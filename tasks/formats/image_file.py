"""Reads one image."""

import pathlib

import numpy as np

from tasks.data_error import DataError
from tasks.formats import labeled_images


def read(path: pathlib.Path, image_size: int | None = None) -> np.ndarray:
  """Returns an image in colour, uint8[height, width, 3].

  Args:
    path: A file of one of the usual formats.
    image_size: Side that it is resized to; None leaves it as it is.

  Raises:
    DataError: If there is no such file, or it is no image.
  """
  import tensorflow as tf  # noqa: PLC0415

  try:
    image = tf.io.decode_image(
      path.read_bytes(), channels=3, expand_animations=False
    )
    if image_size is not None:
      return labeled_images.resize(image, image_size)
  except (OSError, tf.errors.OpError) as error:
    reason = " ".join(str(error).partition("[Op")[0].split())
    raise DataError(f"{path}: is no image: {reason}") from error
  return image.numpy()
