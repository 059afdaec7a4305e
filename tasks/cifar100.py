"""CIFAR-100, divided among clients.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009),
divided by this task, or by TFF among 500 clients (Reddi et al., ICLR 2021). The
default is the partition of AdaFed's first set-up; AdaFed's second set-up and
Semi-VRed have concentration 0.05 and 50 clients. The default tests on published
test images; Semi-VRed, and presumably AdaFed, on a share of each client's
training images (test_data=local).

TFF's 100 test clients are not among its 500 training clients. With partition
"users", each training client gets test images in its own label proportions.
"""

import dataclasses
import pathlib

import numpy as np

from tasks import central, task
from tasks.formats import cifar, tfds_format
from tasks.formats.images import LabeledImages
from tasks.tff_native import native_clients

_NUM_CLASSES = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of the task `cifar100`: those of all image tasks."""

  num_clients: int | None = 10
  partition: central.Partition = "dirichlet"
  model: central.ImageModelName = "resnet18"


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 32, 32, 3], y is int32[n].

  `data_dir` has `cifar-100-python` or `cifar-100-binary` (or is that folder), a
  folder `cifar100` of tensorflow-datasets, or TFF's `cifar100.sqlite`, which is
  downloaded if none exists. Partition "users" reads only `cifar100.sqlite`.
  """
  users: np.ndarray | None = None
  halves = None if config.partition == "users" else _central(data_dir)
  if halves is None:
    clients = native_clients.find(
      "cifar100",
      data_dir,
      ["train", "test"],
      {"image": ([32, 32, 3], "int64"), "label": ([], "int64")},
    )
    halves, users = native_clients.read_images(clients, _to_arrays)
  data = central.images_in_memory(
    "CIFAR-100",
    halves,
    tuple(f"class_{label:02}" for label in range(_NUM_CLASSES)),
    pixels=config.pixels,
    users=users,
  )
  return central.build_image_task(
    "cifar100", config, data, seed=seed, model_seed=model_seed
  )


def _central(
  data_dir: pathlib.Path | None,
) -> tuple[LabeledImages, LabeledImages] | None:
  if data_dir is None:
    return None
  kind = cifar.CIFAR100
  if folder := cifar.find(data_dir, kind):
    return cifar.read(folder, kind)
  if directory := tfds_format.find(data_dir, "cifar100"):
    return tfds_format.read(directory)
  return None


def _to_arrays(examples: native_clients.Examples) -> task.Arrays:
  return examples["image"].astype(np.uint8), examples["label"]
