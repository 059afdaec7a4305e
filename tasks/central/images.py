"""Image data sets, in memory or on disk, and the classifiers for them."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tasks import models, task
from tasks.central import building
from tasks.central.data import CentralData
from tasks.central.options import CutOptions
from tasks.central.pixels import Pixels, scale
from tasks.data_error import DataError
from tasks.formats import class_labels, image_folders
from tasks.formats.labeled_images import LabeledImages


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
      raise DataError(f"{half.source}: has no images.")
    class_labels.check(half.labels, len(class_names), half.source)
  if train.images.shape[1:] != test.images.shape[1:]:
    raise DataError(
      f"{test.source}: has images of shape {list(test.images.shape[1:])}, "
      f"{train.source} of shape {list(train.images.shape[1:])}."
    )
  images = np.concatenate([train.images, test.images])
  mean, deviation = scale(train.images, pixels)

  def load_x(positions: np.ndarray) -> np.ndarray:
    return (images[positions].astype(np.float32) - mean) / deviation

  return CentralData(
    title=title,
    source=train.source,
    labels=np.concatenate([train.labels, test.labels]).astype(np.int32),
    num_train=len(train.labels),
    load_x=load_x,
    x_shape=images.shape[1:],
    class_names=class_names,
    users=users,
  )


def on_disk(
  title: str,
  halves: tuple[image_folders.LabeledPaths, image_folders.LabeledPaths],
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
  images = image_folders.joined(halves)

  def load_x(positions: np.ndarray) -> np.ndarray:
    pixels = image_folders.read_images(
      images.root, images.paths[positions], image_size, resize=resize
    )
    return pixels.astype(np.float32) / np.float32(255.0)

  return CentralData(
    title=title,
    source=images.source,
    labels=images.labels,
    num_train=len(halves[0].labels),
    load_x=load_x,
    x_shape=(image_size, image_size, 3),
    class_names=class_names,
  )
