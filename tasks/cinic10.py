"""CINIC-10, read from its folders and divided among clients.

Darlow et al., "CINIC-10 is not ImageNet or CIFAR-10" (2018): 270,000 images of
32 x 32 pixels. The default is the setting of Semi-VRed: Dirichlet(0.5) divides
all images among 50 clients, as in AdaFed, and a client is tested on half of its
images.
"""

import dataclasses
import pathlib

from tasks import central, cifar10, task
from tasks.formats import data_files, images

_IMAGE_SIZE = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ModelOptions):
  """Options of the task `cinic10`: those of all tasks with images on disk."""

  num_clients: int | None = 50
  partition: central.Partition = "dirichlet"
  test_data: central.TestData = "pooled"
  test_fraction: float = 0.5
  model: central.ImageModelName = "resnet18"


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 32, 32, 3], y is int32[n].

  `data_dir` has the published folders train, valid and test; train and valid
  together are the training data. Images are read on demand.
  """
  files = "folders train, valid and test"
  root = data_files.require(data_dir, what="CINIC-10", files=files)
  train, valid, test = (
    images.class_folders(root, half, cifar10.CLASS_NAMES)
    for half in ("train", "valid", "test")
  )
  data = central.images_on_disk(
    "CINIC-10",
    (images.concatenate([train, valid]), test),
    cifar10.CLASS_NAMES,
    _IMAGE_SIZE,
  )
  return central.build_image_task(
    "cinic10", config, data, seed=seed, model_seed=model_seed
  )
