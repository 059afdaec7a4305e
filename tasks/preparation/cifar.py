"""CIFAR-10 and CIFAR-100, as Python pickles or in the binary version.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009).
Features are those of `tff.simulation.datasets.cifar100`.
"""

import io
import pathlib
import pickle
from typing import Any, NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.preparation import example_proto, source_file
from tasks.preparation.labelled_images import LabelledImages, check_labels

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE


class _Kind(NamedTuple):
  """CIFAR-10 or CIFAR-100: names and numbers of classes of its labels.

  In the binary version, an image follows its labels, a byte each.
  """

  filename: str
  files: dict[str, str]  # Stem of the file's name to its split.
  labels: dict[str, tuple[bytes, int]]  # Feature to its name in the pickle.


_KINDS = (
  _Kind(
    "cifar10.sqlite",
    {
      **{f"data_batch_{n}": "train" for n in range(1, 6)},
      "test_batch": "test",
    },
    {"label": (b"labels", 10)},
  ),
  _Kind(
    "cifar100.sqlite",
    {"train": "train", "test": "test"},
    {"coarse_label": (b"coarse_labels", 20), "label": (b"fine_labels", 100)},
  ),
)

# All that CIFAR's pickles are made of; a pickle can name any function.
_HARMLESS = {
  ("numpy.core.multiarray", "_reconstruct"),
  ("numpy", "ndarray"),
  ("numpy", "dtype"),
  ("_codecs", "encode"),
}


class _SafeUnpickler(pickle.Unpickler):
  def find_class(self, module: str, name: str) -> Any:
    # NumPy 2 writes the new name of the same module.
    module = module.replace("numpy._core", "numpy.core")
    if (module, name) not in _HARMLESS:
      raise pickle.UnpicklingError(
        f"it would call {module}.{name}, which no CIFAR batch does"
      )
    return super().find_class(module, name)


def files(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns the batches in a directory.

  Raises:
    DataError: If it does not hold all batches of a version of CIFAR.
  """
  return list(_find(directory)[1])


def filename(directory: pathlib.Path) -> str:
  """Returns the name of the file to write, after the kind of CIFAR.

  Raises:
    DataError: If the directory does not hold all batches of either.
  """
  return _find(directory)[0].filename


def images(
  directory: pathlib.Path, on_read: source_file.OnRead = source_file.ignore
) -> LabelledImages:
  """Returns the images of all batches.

  Args:
    directory: Where all the batches of CIFAR-10 or of CIFAR-100 are, under
      their usual names.
    on_read: Told of what was read.

  Raises:
    DataError: If a batch is missing or not as it must be.
  """
  kind, batches = _find(directory)
  pixels, labels, splits = [], [], []
  for path, split in batches.items():
    batch_pixels, batch_labels = read_batch(path, on_read)
    pixels.append(batch_pixels)
    labels.append(batch_labels)
    splits += [split] * len(batch_pixels)
  all_pixels = np.concatenate(pixels)
  all_labels = {
    name: np.concatenate([batch[name] for batch in labels])
    for name in kind.labels
  }

  def serialized(position: int) -> bytes:
    planes = all_pixels[position].reshape(3, _SIDE, _SIDE)
    return example_proto.serialize(
      {
        "image": planes.transpose(1, 2, 0),
        **{
          name: all_labels[name][position : position + 1] for name in all_labels
        },
      }
    )

  return LabelledImages(all_labels["label"], splits, serialized)


def is_batch(path: pathlib.Path) -> bool:
  """Returns whether a file's name is that of a batch."""
  return _kind_of(path) is not None


def read_batch(
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
    check_labels(path, labels[name], num_classes)
  return pixels, labels


def _from_bytes(
  path: pathlib.Path, content: bytes, kind: _Kind
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
  path: pathlib.Path, content: bytes, kind: _Kind
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  try:
    batch = _SafeUnpickler(io.BytesIO(content), encoding="bytes").load()
  except Exception as error:  # Damaged pickles raise errors of any kind.
    raise DataError(
      f"{path}: is no pickle of a CIFAR batch, or truncated: {error}."
    ) from error
  try:
    pixels = np.asarray(batch[b"data"])
    labels = {
      name: np.asarray(batch[key], np.int64)
      for name, (key, _) in kind.labels.items()
    }
  except (TypeError, KeyError, ValueError, OverflowError) as error:
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


def _find(
  directory: pathlib.Path,
) -> tuple[_Kind, dict[pathlib.Path, str]]:
  for kind in _KINDS:
    for suffix in ("", ".bin"):
      batches = {
        directory / f"{stem}{suffix}": split
        for stem, split in kind.files.items()
      }
      if all(path.is_file() for path in batches):
        return kind, batches
  raise DataError(
    f"{directory}: holds neither all batches of CIFAR-10 (data_batch_1 to "
    "data_batch_5 and test_batch) nor those of CIFAR-100 (train and test), "
    "with .bin or without."
  )


def _kind_of(path: pathlib.Path) -> _Kind | None:
  stem = path.name.removesuffix(".bin")
  return next((kind for kind in _KINDS if stem in kind.files), None)
