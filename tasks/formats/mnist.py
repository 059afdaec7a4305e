"""Reads MNIST and data sets in its format: idx files of two halves."""

import pathlib

import numpy as np

from tasks.data_error import DataError
from tasks.formats import idx, places, prepared, qmnist
from tasks.formats.labeled_images import LabeledImages


def find_and_read(
  data_dir: pathlib.Path | None, name: str, *, what: str
) -> tuple[pathlib.Path, tuple[LabeledImages, LabeledImages]]:
  """Reads MNIST or its like from where it is.

  Args:
    data_dir: The directory of the idx files, or of a folder `name` that has
      them, or that tensorflow-datasets prepared.
    name: Name of that folder.
    what: Name of the data set, for error messages.

  Returns:
    The directory where it is, and training and test images.

  Raises:
    DataError: If it is not there, or damaged.
  """
  files = f"{_names('train', 'images')[1]} and its three companions"
  data_dir = places.require(data_dir, what=what, files=files)
  for directory in (data_dir, data_dir / name):
    if is_there(directory):
      return directory, read_halves(directory, what=what)
  directory_of_version = prepared.find(data_dir, name)
  if directory_of_version is None:
    raise DataError(
      f"{data_dir}: has no {what}; expected {files} there or in {name}/, or "
      f"{name}/ as tensorflow-datasets prepares it; see {places.PAGE}."
    )
  return directory_of_version, prepared.read(directory_of_version)


def read_halves(
  directory: pathlib.Path,
  *,
  train: str = "train",
  test: str = "t10k",
  what: str,
) -> tuple[LabeledImages, LabeledImages]:
  """Reads training and test images, compressed with gzip or not.

  Args:
    directory: Where the four files are, under the names they are published by.
    train: Beginning of the names of the training files.
    test: Beginning of the names of the test files.
    what: Name of the data set, for error messages.

  Returns:
    Images with one channel, as they are stored.

  Raises:
    DataError: If a file is missing, damaged, or not of these.
  """
  return (
    _read_half(directory, train, what=what),
    _read_half(directory, test, what=what),
  )


def is_there(directory: pathlib.Path, prefix: str = "train") -> bool:
  """Returns whether a directory has such images."""
  return any((directory / name).exists() for name in _names(prefix, "images"))


def read_writers(
  directory: pathlib.Path, halves: tuple[LabeledImages, LabeledImages]
) -> np.ndarray:
  """Reads who wrote MNIST's digits, from QMNIST's labels.

  Args:
    directory: Where both `qmnist-*-labels-idx2-int` files are.
    halves: MNIST's training and test images.

  Returns:
    NIST's numbers of the writers, int64[n], training images first.

  Raises:
    DataError: If a file is missing, damaged, or is not about these images.
  """
  writers = []
  for prefix, half in zip(("train", "test"), halves, strict=True):
    name = f"qmnist-{prefix}-labels-idx2-int"
    path = places.first_existing(
      directory, [name, f"{name}.gz"], what="QMNIST labels"
    )
    writers.append(qmnist.read_writers(path, half.labels))
  return np.concatenate(writers)


def _read_half(
  directory: pathlib.Path, prefix: str, *, what: str
) -> LabeledImages:
  images_path, labels_path = (
    places.first_existing(directory, _names(prefix, kind), what=what)
    for kind in ("images", "labels")
  )
  images, labels = idx.read(images_path, 3), idx.read(labels_path, 1)
  for path, array in [(images_path, images), (labels_path, labels)]:
    if array.dtype != np.uint8:
      raise DataError(f"{path}: holds {array.dtype}, expected bytes.")
  return LabeledImages(
    images=images[..., np.newaxis],
    labels=labels.astype(np.int32),
    source=f"{images_path}, {labels_path.name}",
  )


def _names(prefix: str, kind: str) -> list[str]:
  axes = {"images": 3, "labels": 1}[kind]
  # Some unpack train-images-idx3-ubyte as train-images.idx3-ubyte.
  return [
    f"{prefix}-{kind}{joint}idx{axes}-ubyte{ending}"
    for joint in "-."
    for ending in ("", ".gz")
  ]
