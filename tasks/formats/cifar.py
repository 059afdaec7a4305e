"""Reads CIFAR-10 and CIFAR-100 as published: Python or binary batches, or npz.

https://www.cs.toronto.edu/~kriz/cifar.html describes the batches. An npz file
holds x_train, y_train, x_test and y_test, as Keras names them.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import cifar_batch, npz
from tasks.formats.labeled_images import LabeledImages

_SHAPE = (32, 32, 3)


def find(
  directory: pathlib.Path, kind: cifar_batch.Kind
) -> pathlib.Path | None:
  """Returns the folder that has the batches, if there is one.

  Args:
    directory: That folder, or one that has it under the published name.
    kind: `cifar_batch.CIFAR10` or `cifar_batch.CIFAR100`.
  """
  first, *_, test = kind.splits
  for folder in (directory, *(directory / name for name in kind.folders)):
    # One name such as "train" alone may be of something else.
    if any(
      all((folder / f"{name}{ending}").is_file() for name in (first, test))
      for ending in ("", ".bin")
    ):
      return folder
  return None


def read(
  folder: pathlib.Path, kind: cifar_batch.Kind
) -> tuple[LabeledImages, LabeledImages]:
  """Reads all batches of either version.

  Args:
    folder: As `find` returns it.
    kind: `cifar_batch.CIFAR10` or `cifar_batch.CIFAR100`.

  Returns:
    Training and test images.

  Raises:
    DataError: If a batch is missing or damaged.
  """
  first, *_ = kind.splits
  ending = "" if (folder / first).is_file() else ".bin"
  train, test = (
    _joined([folder / f"{name}{ending}" for name in kind.batches(split)])
    for split in ("train", "test")
  )
  return train, test


def read_npz(path: pathlib.Path) -> tuple[LabeledImages, LabeledImages]:
  """Reads x_train, y_train, x_test and y_test.

  Raises:
    DataError: If the file is damaged or its arrays are not those of images of
      32 x 32 x 3 bytes.
  """
  names = [f"{axis}_{half}" for half in ("train", "test") for axis in "xy"]
  arrays = npz.read(path, names, what="CIFAR in an npz file")
  halves = [(arrays[x], arrays[y]) for x, y in (names[:2], names[2:])]
  for x, y in halves:
    if x.dtype != np.uint8 or x.shape[1:] != _SHAPE:
      raise DataError(
        f"{path}: has images {x.dtype}{list(x.shape)}, expected "
        "uint8[n, 32, 32, 3]."
      )
    if y.dtype.kind not in "iu" or y.ndim == 0 or y.size != len(y):
      raise DataError(
        f"{path}: has labels {y.dtype}{list(y.shape)}, expected integers [n]."
      )
  train, test = (
    LabeledImages(
      images=x, labels=y.reshape(-1).astype(np.int32), source=str(path)
    )
    for x, y in halves
  )
  return train, test


def _joined(paths: Sequence[pathlib.Path]) -> LabeledImages:
  batches = [cifar_batch.read(path) for path in paths]
  pixels = np.concatenate([pixels for pixels, _ in batches])
  # Stored channel by channel.
  images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
  return LabeledImages(
    images=np.ascontiguousarray(images),
    # Of CIFAR-100's labels "label" are the fine ones.
    labels=np.concatenate([labels["label"] for _, labels in batches]).astype(
      np.int32
    ),
    source=str(paths[0] if len(paths) == 1 else paths[0].parent),
  )
