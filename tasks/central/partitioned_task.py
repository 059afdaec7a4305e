"""Builds tasks from central data, such as images, divided among clients.

Images may be in memory or on disk.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from tasks import client_weights, cuts, models, task
from tasks.central import partitioning
from tasks.central.partitioning import CentralData, CutOptions
from tasks.data_error import DataError
from tasks.formats import example_checks, images
from tasks.formats.images import LabeledImages, LabeledPaths
from tasks.tabular import labels, population
from tff_fair import declared


def build_task(
  name: str,
  config: CutOptions,
  data: CentralData,
  keras_model_fn: task.KerasModelFn,
  *,
  seed: int,
  split: cuts.ClientSplit | None = None,
) -> task.Task:
  """Divides data among clients, and builds a task.

  The task keeps only clients that have both train and test examples; its
  description states how many clients are left out.
  """
  split = split or partitioning.make_split(config, data, seed)
  used = [
    k
    for k, (train, test) in enumerate(zip(split.train, split.test, strict=True))
    if len(train) > 0 and len(test) > 0
  ]
  how_cut = split.partition_text or config.partition_text()
  if not used:
    raise DataError(
      data.source,
      f"none of the {len(split.client_names):,} clients {how_cut} has both "
      "train and test examples.",
    )
  parts = [[half[k] for k in used] for half in (split.train, split.test)]
  found = _labels(data, parts[0])
  train, test = (_split(data, found.y, half) for half in parts)
  names = tuple(split.client_names[k] for k in used)
  return task.Task(
    name=name,
    description=(
      f"{data.title} over {len(used):,} clients {how_cut}"
      f"{_notes(config, split, len(used))}: {task.count_examples(train, test)}"
    ),
    client_names=names,
    train=train,
    test=test,
    element_spec=task.element_spec(data.x_shape, y_dtype=found.y.dtype.name),
    num_classes=found.num_classes,
    class_names=found.class_names,
    keras_model_fn=keras_model_fn,
    objective=models.objective(found.num_classes),
    label_scale=found.scale,
    client_weights=None
    if data.weights is None
    else client_weights.of_parts(data.weights, names, parts, data.source),
  )


def _notes(config: CutOptions, split: cuts.ClientSplit, num_kept: int) -> str:
  """Returns notes on moved examples and left-out clients, in parentheses."""
  notes = []
  if split.share_moved:
    notes.append(
      f"{100 * split.share_moved:.3g} % of the examples moved for "
      f"min_size={config.min_size}"
    )
  if num_left_out := len(split.client_names) - num_kept:
    notes.append(f"{num_left_out:,} without train or test examples left out")
  return f" ({'; '.join(notes)})" if notes else ""


def _labels(data: CentralData, train: Sequence[np.ndarray]) -> labels.Labels:
  """Returns the labels, standardized by the training rows if numeric."""
  if data.numbers is None:
    return labels.Labels(y=data.labels, class_names=data.class_names)
  rows = client_rows(train)
  return labels.standardize(data.numbers, rows, source=data.source)


def client_rows(parts: Sequence[np.ndarray]) -> population.ClientRows:
  """Joins `parts`, each client's positions in the data, into `ClientRows`."""
  return population.ClientRows(
    np.concatenate(parts), np.array([len(part) for part in parts])
  )


def _split(
  data: CentralData, y: np.ndarray, parts: Sequence[np.ndarray]
) -> task.Split:
  return task.Split(
    num_examples=np.array([len(part) for part in parts], np.int64),
    load=lambda k: (data.load_x(parts[k]), y[parts[k]]),
  )


# The rest of this file scales pixels, and builds tasks from image data sets.

Pixels = Literal["unit", "standardized", "per_channel"]

# The number of images to sum at a time; with 28 x 28 pixels, they take 25 MB.
_CHUNK = 4096
# Added to each deviation, as in Li et al., so that constant pixels become zero.
_LEAST_DEVIATION = 1e-3


def pixel_scaling(
  images: np.ndarray, pixels: Pixels
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the value to subtract from pixels, and the divisor, both float32.

  Images are uint8[n, height, width, channels]. "standardized" is as in Li et
  al., "Fair Resource Allocation in Federated Learning". "per_channel" subtracts
  each channel's mean, and divides by the channel's standard deviation within an
  image, averaged over images. For CIFAR-10, the means are 255 times 0.4914,
  0.4822, 0.4465 and the deviations 255 times 0.2023, 0.1994, 0.2010, as in many
  PyTorch programs.
  """
  if pixels == "standardized":
    return _moments_of_pixels(images)
  if pixels == "per_channel":
    return _moments_of_channels(images)
  return np.array(0.0, np.float32), np.array(255.0, np.float32)


def image_loader(
  images: np.ndarray, num_train: int, pixels: Pixels
) -> Callable[[np.ndarray], np.ndarray]:
  """Returns a function that maps positions to images, scaled as `pixels` says.

  The scale is computed from the first `num_train` images, those for training.
  """
  mean, deviation = pixel_scaling(images[:num_train], pixels)
  return lambda positions: (
    (images[positions].astype(np.float32) - mean) / deviation
  )


def _moments_of_pixels(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  # Sums integers, so the order of summation does not affect the result.
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
  # Sums without rounding, so the result is the same on every machine.
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
  """Options of image tasks."""

  model: models.ImageModelName = declared.value(
    "cnn",
    'The classifier. "linear": logistic regression. "mlp": two hidden layers '
    'of 200 units; "mlp_128": one of 128. "linear_double_softmax" and '
    '"mlp_double_softmax": the same with a second softmax, a mistake in '
    'FedFV\'s code. "cnn": the convolutional network of McMahan et al. '
    '"resnet18": ResNet-18 with group normalization. "vgg11": VGG-11.',
  )
  initial_weights: models.InitialWeights = declared.value(
    "glorot",
    "The initial weights of dense networks: uniform as in Glorot and Bengio "
    '("glorot"), or as PyTorch draws them ("pytorch").',
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(ModelOptions):
  """Options of tasks whose images are held in memory."""

  pixels: Pixels = declared.value(
    "unit",
    'How pixels become floats. "unit": divided by 255. "standardized": each '
    "pixel has mean 0 and standard deviation 1 over the training images. "
    '"per_channel": each colour channel has mean 0 and is divided by its mean '
    "standard deviation within an image.",
  )


def build_image_task(
  name: str,
  config: ModelOptions,
  data: CentralData,
  *,
  seed: int,
  model_seed: int,
) -> task.Task:
  """Divides images among clients and builds a task, like `build_task`."""
  build = models.image_classifier(
    config.model,
    data.x_shape,
    data.num_outputs,
    model_seed,
    config.initial_weights,
  )
  return build_task(name, config, data, build, seed=seed)


def images_in_memory(
  title: str,
  halves: tuple[LabeledImages, LabeledImages],
  class_names: Sequence[str],
  *,
  pixels: Pixels,
  users: np.ndarray | None = None,
) -> CentralData:
  """Returns images as a data set that converts them to floats on demand."""
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
    load_x=image_loader(joined, len(train.images), pixels),
    x_shape=joined.shape[1:],
    class_names=class_names,
    users=users,
  )


def images_on_disk(
  title: str,
  halves: tuple[LabeledPaths, LabeledPaths],
  class_names: Sequence[str],
  image_size: int,
  *,
  resize: bool = False,
) -> CentralData:
  """Returns a data set that reads image files on demand, with x in [0, 1]."""
  found = images.concatenate(halves)

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
