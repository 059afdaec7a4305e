"""How bytes of images become floats."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

Pixels = Literal["unit", "standardized", "per_channel"]

# Images whose squares are summed at a time: 25 MB of 28 x 28 pixels.
_CHUNK = 4096
# A pixel that never changes becomes zero; the constant is that of Li et al.
_LEAST_DEVIATION = 1e-3


def scale(images: np.ndarray, pixels: Pixels) -> tuple[np.ndarray, np.ndarray]:
  """Returns a number to subtract from pixels, and one to divide them by.

  Args:
    images: The training images, uint8[n, height, width, channels], n > 0.
    pixels: "unit" divides by 255. "standardized" subtracts from each pixel its
      mean over all images and divides by its standard deviation, as in Li et
      al., "Fair Resource Allocation in Federated Learning". "per_channel"
      subtracts from each channel its mean over all images and divides by the
      mean of its standard deviations within an image: for all of CIFAR-10's
      training images 0.4914, 0.4822, 0.4465 and 0.2023, 0.1994, 0.2010 of 255,
      the numbers of many programs in PyTorch.

  Returns:
    Two arrays, float32, of a shape that broadcasts to that of an image.
  """
  if pixels == "standardized":
    return _moments_of_pixels(images)
  if pixels == "per_channel":
    return _moments_of_channels(images)
  return np.array(0.0, np.float32), np.array(255.0, np.float32)


def _moments_of_pixels(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  # In whole numbers: no order of summation, the same on every machine.
  total = np.zeros(images.shape[1:], np.int64)
  squares = np.zeros(images.shape[1:], np.int64)
  for chunk in _chunks(images):
    total += chunk.sum(axis=0)
    squares += (chunk * chunk).sum(axis=0)
  count = len(images)
  deviation = _deviation(total, squares, count) + _LEAST_DEVIATION
  return (total / count).astype(np.float32), deviation.astype(np.float32)


def _moments_of_channels(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  total = np.zeros(images.shape[-1], np.int64)
  deviations = []
  count = images.shape[1] * images.shape[2]
  for chunk in _chunks(images):
    totals = chunk.sum(axis=(1, 2))
    squares = (chunk * chunk).sum(axis=(1, 2))
    total += totals.sum(axis=0)
    deviations.append(_deviation(totals, squares, count))
  # Summed without rounding: the same on every machine.
  deviation = [
    math.fsum(channel) / len(images) + _LEAST_DEVIATION
    for channel in np.concatenate(deviations).T
  ]
  mean = total / (len(images) * count)
  return mean.astype(np.float32), np.array(deviation, np.float32)


def _deviation(
  total: np.ndarray, squares: np.ndarray, count: int
) -> np.ndarray:
  return np.sqrt((count * squares - total * total) / count**2)


def _chunks(images: np.ndarray) -> Iterator[np.ndarray]:
  for start in range(0, len(images), _CHUNK):
    yield images[start : start + _CHUNK].astype(np.int64)
