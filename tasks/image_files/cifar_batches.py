"""Reads CIFAR-10 and CIFAR-100 as published: Python or binary batches, or npz.

https://www.cs.toronto.edu/~kriz/cifar.html describes the batches. An npz file
holds x_train, y_train, x_test and y_test, as Keras names them.
"""

import dataclasses
import pathlib
import zipfile
from collections.abc import Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.image_files.labeled import LabeledImages
from tasks.preparation import cifar

_SHAPE = (32, 32, 3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
  """How one of the two data sets is published.

  Attributes:
    folders: Names of the folders, of the Python and of the binary version.
    train: Names of the training batches, without ending.
    test: Name of the test batch.
  """

  folders: tuple[str, str]
  train: tuple[str, ...]
  test: str


CIFAR10 = Layout(
  folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
  train=tuple(f"data_batch_{k}" for k in range(1, 6)),
  test="test_batch",
)
CIFAR100 = Layout(
  folders=("cifar-100-python", "cifar-100-binary"),
  train=("train",),
  test="test",
)


def find(directory: pathlib.Path, layout: Layout) -> pathlib.Path | None:
  """Returns the folder that has the batches, if there is one.

  Args:
    directory: That folder, or one that has it under the published name.
    layout: CIFAR10 or CIFAR100.
  """
  for folder in (directory, *(directory / name for name in layout.folders)):
    # A single name such as "train" may be of something else.
    if any(
      (folder / f"{layout.train[0]}{ending}").is_file()
      and (folder / f"{layout.test}{ending}").is_file()
      for ending in ("", ".bin")
    ):
      return folder
  return None


def read(
  folder: pathlib.Path, layout: Layout
) -> tuple[LabeledImages, LabeledImages]:
  """Reads all batches of either version.

  Args:
    folder: As `find` returns it.
    layout: CIFAR10 or CIFAR100.

  Returns:
    Training and test images.

  Raises:
    DataError: If a batch is missing or damaged.
  """
  ending = "" if (folder / layout.train[0]).is_file() else ".bin"
  return (
    _joined([folder / f"{name}{ending}" for name in layout.train]),
    _joined([folder / f"{layout.test}{ending}"]),
  )


def read_npz(path: pathlib.Path) -> tuple[LabeledImages, LabeledImages]:
  """Reads x_train, y_train, x_test and y_test.

  Raises:
    DataError: If the file is damaged or its arrays are not those of images of
      32 x 32 x 3 bytes.
  """
  try:
    with np.load(path, allow_pickle=False) as arrays:
      halves = [(arrays[f"x_{h}"], arrays[f"y_{h}"]) for h in ("train", "test")]
  except OSError as error:
    raise DataError(
      f"{path}: cannot be read: {error.strerror or error}."
    ) from error
  except zipfile.BadZipFile as error:
    raise DataError(f"{path}: is damaged: {error}.") from error
  except (ValueError, KeyError, TypeError, EOFError) as error:
    raise DataError(
      f"{path}: x_train, y_train, x_test, y_test cannot be read: {error}."
    ) from error
  for x, y in halves:
    if x.dtype != np.uint8 or x.shape[1:] != _SHAPE:
      raise DataError(
        f"{path}: has images {x.dtype}{list(x.shape)}, expected "
        "uint8[n, 32, 32, 3]."
      )
    if y.dtype.kind not in "iu" or y.size != len(y):
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
  batches = [cifar.read_batch(path) for path in paths]
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
