"""MNIST and data sets in its format, by writer where QMNIST has labels.

LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998);
Yadav and Bottou, "Cold Case: the Lost MNIST Digits" (NeurIPS 2019), whose
extended labels name the writer of each of MNIST's images. Features, and the
background of 1, are those of `tff.simulation.datasets.emnist`.
"""

import pathlib
from collections.abc import Iterator

import numpy as np

from tasks.conversions.central_images import CentralImages
from tasks.conversions.client_data_file import Example
from tasks.data_error import DataError
from tasks.formats import class_labels, example_proto, idx, qmnist, source_file

FILENAME = "emnist_all.sqlite"
TRAIN, TEST = "digits_only_train", "digits_only_test"

_NUM_CLASSES = 10
_SHAPE = (28, 28)
# Names of a half in MNIST and in QMNIST.
_HALVES = {TRAIN: ("train", "train"), TEST: ("t10k", "test")}


def files(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files that would be read, those of both halves.

  Raises:
    DataError: If images or labels are missing.
  """
  found = [
    _file(directory, name)
    for mnist, _ in _HALVES.values()
    for name in (f"{mnist}-images-idx3-ubyte", f"{mnist}-labels-idx1-ubyte")
  ]
  return found + (_writer_files(directory) or [])


def has_writers(directory: pathlib.Path) -> bool:
  """Returns whether QMNIST's labels for both halves are there."""
  return _writer_files(directory) is not None


def images(
  directory: pathlib.Path, on_read: source_file.OnRead = source_file.ignore
) -> CentralImages:
  """Returns the images of both halves.

  Args:
    directory: Where the idx files are, under their usual names, compressed with
      gzip or not.
    on_read: Told how much was read.

  Raises:
    DataError: If a file is missing or not as it must be.
  """
  pixels, labels, splits = [], [], []
  for split, (mnist, _) in _HALVES.items():
    path = _file(directory, f"{mnist}-images-idx3-ubyte")
    half = idx.read(path, 3, on_read)
    if half.shape[1:] != _SHAPE or half.dtype != np.uint8:
      raise DataError(
        f"{path}: holds {half.dtype}{list(half.shape)}, expected images of 28 "
        "x 28 bytes."
      )
    label_path = _file(directory, f"{mnist}-labels-idx1-ubyte")
    half_labels = idx.read(label_path, 1, on_read)
    if len(half_labels) != len(half):
      raise DataError(
        f"{label_path}: holds {len(half_labels):,} labels, expected one for "
        f"each of the {len(half):,} images in {path.name}."
      )
    class_labels.check(half_labels, _NUM_CLASSES, str(label_path))
    pixels.append(half)
    labels.append(half_labels)
    splits += [split] * len(half)
  all_pixels, all_labels = np.concatenate(pixels), np.concatenate(labels)

  def serialized(position: int) -> bytes:
    background = np.float32(255)
    return example_proto.serialize(
      {
        "label": all_labels[position : position + 1],
        "pixels": (background - all_pixels[position]) / background,
      }
    )

  return CentralImages(all_labels.astype(np.int64), splits, serialized)


def by_writer(
  directory: pathlib.Path,
  *,
  keep_splits: bool,
  on_read: source_file.OnRead = source_file.ignore,
) -> Iterator[Example]:
  """Yields the images of both halves with their writers.

  Args:
    directory: Where the idx files are, QMNIST's labels among them.
    keep_splits: Whether images stay in the half they are published in; few
      writers are in both.
    on_read: Told how much was read.

  Raises:
    DataError: If a file is missing or not as it must be.
  """
  found = images(directory, on_read)
  start = 0
  for split, path in zip(_HALVES, _writer_files(directory) or [], strict=True):
    size = found.splits.count(split)
    labels = found.labels[start : start + size]
    writers = qmnist.read_writers(path, labels, on_read)
    for position, writer in enumerate(writers, start):
      yield Example(
        f"nist_writer_{writer:04}",
        found.serialized(position),
        split if keep_splits else None,
      )
    start += size


def _writer_files(directory: pathlib.Path) -> list[pathlib.Path] | None:
  found = [
    _candidates(directory, f"qmnist-{qmnist}-labels-idx2-int")
    for _, qmnist in _HALVES.values()
  ]
  return [paths[0] for paths in found] if all(found) else None


def _file(directory: pathlib.Path, name: str) -> pathlib.Path:
  paths = _candidates(directory, name)
  if not paths:
    raise DataError(
      f"{directory / name}: there is no such file, with .gz or without."
    )
  return paths[0]


def _candidates(directory: pathlib.Path, name: str) -> list[pathlib.Path]:
  # Some unpack train-images-idx3-ubyte as train-images.idx3-ubyte.
  names = [name, name.replace("-idx", ".idx")]
  paths = [directory / (n + end) for n in names for end in ("", ".gz")]
  return [path for path in paths if path.is_file()]
