"""CIFAR-10, divided among clients.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). The
default is the partition of AdaFed's first set-up and of FedFV: 200 label shards
over 100 clients. Other papers use partition=dirichlet: concentration 0.5 over
10 clients (AdaFed), 0.05 over 50 with test_data=local, test_fraction=0.5
(Semi-VRed), 0.1 over 16 with test_data=local (AdaFedAdam).
"""

import dataclasses
import pathlib

from tasks import central, task
from tasks.data_error import DataError
from tasks.formats import cifar, data_files, tfds_format
from tasks.formats.images import LabeledImages

CLASS_NAMES = (
  *("airplane", "automobile", "bird", "cat", "deer"),
  *("dog", "frog", "horse", "ship", "truck"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of the task `cifar10`: those of all image tasks."""

  model: central.ImageModelName = "mlp"


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 32, 32, 3], y is int32[n].

  `data_dir` has `cifar-10-batches-py` or `cifar-10-batches-bin` (or is that
  folder), one file `cifar10*.npz`, or a folder `cifar10` of
  tensorflow-datasets; the first of these that exists is read.
  """
  data = central.images_in_memory(
    "CIFAR-10", _read(data_dir), CLASS_NAMES, pixels=config.pixels
  )
  return central.build_image_task(
    "cifar10", config, data, seed=seed, model_seed=model_seed
  )


def _read(data_dir: pathlib.Path | None) -> tuple[LabeledImages, LabeledImages]:
  kind = cifar.CIFAR10
  files = f"{' or '.join(kind.folders)}, or cifar10*.npz"
  data_dir = data_files.require(data_dir, what="CIFAR-10", files=files)
  if folder := cifar.find(data_dir, kind):
    return cifar.read(folder, kind)
  if npz := sorted(data_dir.glob("cifar10*.npz")):
    if len(npz) > 1:
      raise DataError(
        data_dir,
        f"has {' and '.join(path.name for path in npz)}; name a directory that "
        "has only one of them.",
      )
    return cifar.read_npz(npz[0])
  if directory := tfds_format.find(data_dir, "cifar10"):
    return tfds_format.read(directory)
  raise DataError(
    data_dir,
    f"has no CIFAR-10; expected {files}, or cifar10/ as tensorflow-datasets "
    f"prepares it; see {data_files.PAGE}.",
  )
