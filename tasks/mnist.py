"""MNIST, divided among clients by label shards or by writer.

LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998).
The 200 clients with shards are those of Wang et al., "Federated Learning with
Fair Averaging" (IJCAI 2021). Pixels are as published, with background 0; TFF's
EMNIST has background 1.
"""

import dataclasses
import pathlib

import numpy as np

from tasks import central, task
from tasks.formats import mnist

_CLASS_NAMES = tuple(map(str, range(10)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of the task `mnist`: those of image tasks, with 200 clients."""

  num_clients: int | None = 200


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 28, 28, 1], y is int32[n].

  `data_dir` has the four idx files, or a folder `mnist` that has them, or in
  which tensorflow-datasets has prepared the data. For partition "users",
  QMNIST's two files of labels must be in the same folder.
  """
  directory, halves = mnist.find_and_read(data_dir, "mnist", what="MNIST")
  users: np.ndarray | None = None
  if config.partition == "users":
    users = mnist.read_writers(directory, [half.labels for half in halves])
  data = central.images_in_memory(
    "MNIST", halves, _CLASS_NAMES, pixels=config.pixels, users=users
  )
  return central.build_image_task(
    "mnist", config, data, seed=seed, model_seed=model_seed
  )
