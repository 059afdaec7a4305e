"""Reads one batch of CIFAR-10 or CIFAR-100, a Python pickle or binary.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009);
https://www.cs.toronto.edu/~kriz/cifar.html describes both versions.
"""

import io
import pathlib
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.formats import class_labels, source_file

SIDE = 32
_PIXELS = 3 * SIDE * SIDE


class Kind(NamedTuple):
  """CIFAR-10 or CIFAR-100, as published.

  In the binary version, an image follows its labels, a byte each.

  Attributes:
    name: "cifar10" or "cifar100".
    folders: Names of the folders, of the Python and of the binary version.
    splits: The split, "train" or "test", of each batch, without its ending.
    labels: The key in the pickle and the number of classes of each label.
  """

  name: str
  folders: tuple[str, str]
  splits: Mapping[str, str]
  labels: Mapping[str, tuple[bytes, int]]

  def batches(self, split: str) -> list[str]:
    """Returns the names of a split's batches, without their ending."""
    return [name for name, found in self.splits.items() if found == split]


CIFAR10 = Kind(
  "cifar10",
  ("cifar-10-batches-py", "cifar-10-batches-bin"),
  {**{f"data_batch_{n}": "train" for n in range(1, 6)}, "test_batch": "test"},
  {"label": (b"labels", 10)},
)
CIFAR100 = Kind(
  "cifar100",
  ("cifar-100-python", "cifar-100-binary"),
  {"train": "train", "test": "test"},
  {"coarse_label": (b"coarse_labels", 20), "label": (b"fine_labels", 100)},
)

# CIFAR's pickles are made of these alone; a pickle can name any function.
_HARMLESS = {
  ("numpy.core.multiarray", "_reconstruct"),
  ("numpy", "ndarray"),
  ("numpy", "dtype"),
  ("_codecs", "encode"),
}


class _SafeUnpickler(pickle.Unpickler):
  def find_class(self, module: str, name: str) -> object:
    # NumPy 2 writes the new name of the same module.
    module = module.replace("numpy._core", "numpy.core")
    if (module, name) not in _HARMLESS:
      raise pickle.UnpicklingError(
        f"it would call {module}.{name}, which no CIFAR batch does"
      )
    return super().find_class(module, name)


def is_batch(path: pathlib.Path) -> bool:
  """Returns whether a file's name is that of a batch."""
  return _kind_of(path) is not None


def read(
  path: pathlib.Path, on_read: source_file.OnRead = source_file.ignore
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  """Returns pixels, uint8[n, 3072], and labels, int64[n] by name.

  Raises:
    DataError: If the file is no batch of CIFAR.
  """
  kind = _kind_of(path)
  if kind is None:
    raise DataError(f"{path}: has no name of a CIFAR batch.")
  with source_file.opened(path, on_read) as file:
    content = file.read()
  parse = _from_bytes if path.suffix == ".bin" else _from_pickle
  pixels, labels = parse(path, content, kind)
  for name, (_, num_classes) in kind.labels.items():
    class_labels.check(labels[name], num_classes, str(path))
  return pixels, labels


def _from_bytes(
  path: pathlib.Path, content: bytes, kind: Kind
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  row = len(kind.labels) + _PIXELS
  if not content or len(content) % row:
    raise DataError(
      f"{path}: has {len(content):,} bytes, expected a multiple of {row:,}, "
      "those of an image: it is truncated or no CIFAR batch."
    )
  rows = np.frombuffer(content, np.uint8).reshape(-1, row)
  columns = zip(kind.labels, rows.T, strict=False)
  return rows[:, len(kind.labels) :], {
    name: column.astype(np.int64) for name, column in columns
  }


def _from_pickle(
  path: pathlib.Path, content: bytes, kind: Kind
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  with source_file.damage_named(
    path, "is no pickle of a CIFAR batch, or truncated"
  ):
    batch: Any = _SafeUnpickler(io.BytesIO(content), encoding="bytes").load()
  try:
    pixels = np.asarray(batch[b"data"])
    labels = {
      name: np.asarray(batch[key], np.int64)
      for name, (key, _) in kind.labels.items()
    }
  except (TypeError, LookupError, ValueError, OverflowError) as error:
    raise DataError(
      f"{path}: is no CIFAR batch: expected data and "
      f"{', '.join(key.decode() for key, _ in kind.labels.values())}."
    ) from error
  expected = (len(labels["label"]), _PIXELS) if labels["label"].ndim else ()
  if pixels.dtype != np.uint8 or pixels.shape != expected:
    raise DataError(
      f"{path}: holds data {pixels.dtype}{list(pixels.shape)}, expected "
      f"uint8{list(expected)}, a row for each label."
    )
  return pixels, labels


def _kind_of(path: pathlib.Path) -> Kind | None:
  stem = path.name.removesuffix(".bin")
  return next(
    (kind for kind in (CIFAR10, CIFAR100) if stem in kind.splits), None
  )
