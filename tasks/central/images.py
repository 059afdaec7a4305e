"""Image data sets, in memory or on disk, and the classifiers for them."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from tasks import models, task
from tasks.central import building
from tasks.central.cutting import CentralData, CutOptions
from tasks.data_error import DataError
from tasks.formats import example_checks, images
from tasks.formats.images import LabeledImages, LabeledPaths

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


def load_x(
  images: np.ndarray, num_train: int, pixels: Pixels
) -> Callable[[np.ndarray], np.ndarray]:
  """Returns what makes floats of images, which stay bytes until then.

  Args:
    images: The images, uint8[n, height, width, channels].
    num_train: How many of them, from the start, are for training.
    pixels: As for `scale`, over these.

  Returns:
    A function from positions, int64[m], to float32[m, height, width, channels].
  """
  mean, deviation = scale(images[:num_train], pixels)
  return lambda positions: (
    (images[positions].astype(np.float32) - mean) / deviation
  )


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(CutOptions):
  """Options of tasks of images.

  Attributes:
    model: The classifier. "linear": logistic regression. "mlp": two hidden
      layers of 200 units; "mlp_128": one of 128. "linear_double_softmax" and
      "mlp_double_softmax": the same with a second softmax, as the code of FedFV
      has it by mistake. "cnn": the convolutional network of McMahan et al.
      "resnet18": ResNet-18 with group normalization. "vgg11": VGG-11.
    initial_weights: The initial weights of dense networks: uniform as in Glorot
      and Bengio ("glorot"), or as PyTorch draws them ("pytorch").
  """

  model: models.ImageModelName = "cnn"
  initial_weights: models.InitialWeights = "glorot"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(ModelOptions):
  """Options of tasks whose images are held in memory.

  Attributes:
    pixels: How bytes become floats. "unit": divided by 255. "standardized":
      each pixel has mean 0 and deviation 1 over the training images.
      "per_channel": each colour channel is brought to mean 0 and divided by its
      mean deviation within an image.
  """

  pixels: Pixels = "unit"


def build_image_task(
  name: str,
  config: ModelOptions,
  data: CentralData,
  *,
  seed: int,
  model_seed: int,
) -> task.Task:
  """Cuts images over clients and makes a task of them.

  Args:
    name: Name of the task.
    config: How to cut, and the model.
    data: The images.
    seed: Seed of the cut.
    model_seed: Seed of the initial weights.

  Returns:
    The task; otherwise as `build_task`.
  """
  height, width, channels = data.x_shape
  return building.build_task(
    name,
    config,
    data,
    models.image_classifier(
      config.model,
      (height, width, channels),
      data.num_outputs,
      model_seed,
      config.initial_weights,
    ),
    seed=seed,
  )


def in_memory(
  title: str,
  halves: tuple[LabeledImages, LabeledImages],
  class_names: Sequence[str],
  *,
  pixels: Pixels,
  users: np.ndarray | None = None,
) -> CentralData:
  """Returns images as a central data set; they stay bytes until asked for.

  Args:
    title: The images in a few words.
    halves: Training and test images of one shape.
    class_names: Name of each class.
    pixels: How bytes become floats, see `ImageOptions`.
    users: Who made each image, training images first.

  Raises:
    DataError: If there are no images, or of two shapes, or a label is out of
      range.
  """
  train, test = halves
  for half in halves:
    if len(half.images) == 0:
      raise DataError(half.source, "has no images.")
    example_checks.check_labels(half.labels, len(class_names), half.source)
  if train.images.shape[1:] != test.images.shape[1:]:
    raise DataError(
      test.source,
      f"has images of shape {list(test.images.shape[1:])}, {train.source} of "
      f"shape {list(train.images.shape[1:])}.",
    )
  joined = np.concatenate([train.images, test.images])
  return CentralData(
    title=title,
    source=train.source,
    labels=np.concatenate([train.labels, test.labels]).astype(np.int32),
    num_train=len(train.labels),
    load_x=load_x(joined, len(train.images), pixels),
    x_shape=joined.shape[1:],
    class_names=class_names,
    users=users,
  )


def on_disk(
  title: str,
  halves: tuple[LabeledPaths, LabeledPaths],
  class_names: Sequence[str],
  image_size: int,
  *,
  resize: bool = False,
) -> CentralData:
  """Returns images in files as a central data set, read client by client.

  Args:
    title: The images in a few words.
    halves: Training and test images.
    class_names: Name of each class.
    image_size: Height and width that images have, or are given.
    resize: Whether those of another size are resized.

  Returns:
    The data set; images are divided by 255.
  """
  found = images.joined(halves)

  def read(positions: np.ndarray) -> np.ndarray:
    pixels = images.read_images(
      found.root, found.paths[positions], image_size, resize=resize
    )
    return pixels.astype(np.float32) / np.float32(255.0)

  return CentralData(
    title=title,
    source=found.source,
    labels=found.labels,
    num_train=len(halves[0].labels),
    load_x=read,
    x_shape=(image_size, image_size, 3),
    class_names=class_names,
  )
