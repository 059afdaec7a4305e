"""Reads MNIST and data sets in its format (idx files), and digits' writers.

LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998);
http://yann.lecun.com/exdb/mnist describes idx files. QMNIST's extended labels
name the writers of MNIST's digits: Yadav and Bottou, "Cold Case: The Lost MNIST
Digits" (NeurIPS 2019).
"""

import math
import pathlib
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files, tfds_format
from tasks.formats.images import LabeledImages

_TYPES: Mapping[int, np.dtype] = {
  0x08: np.dtype("u1"),
  0x09: np.dtype("i1"),
  0x0B: np.dtype(">i2"),
  0x0C: np.dtype(">i4"),
  0x0D: np.dtype(">f4"),
  0x0E: np.dtype(">f8"),
}
# QMNIST's files of labels for MNIST's training and test images.
_WRITERS = [f"qmnist-{half}-labels-idx2-int" for half in ("train", "test")]
_CLASS, _WRITER = 0, 2


def read_idx(path: pathlib.Path, num_axes: int | None = None) -> np.ndarray:
  """Returns the array in an idx file, which may be gzipped."""
  with data_files.open_file(path) as file:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
      raise DataError(
        path,
        f"is not an idx file: it starts with {magic!r}, expected two zero "
        "bytes, a type and a number of axes.",
      )
    if num_axes is not None and magic[3] != num_axes:
      raise DataError(
        path, f"holds an array of {magic[3]} axes, expected {num_axes}."
      )
    dtype = _TYPES[magic[2]]
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
      raise DataError(path, "is truncated in its header.")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    expected = math.prod(shape) * dtype.itemsize
    content = bytearray()
    # Reads in pieces, since a damaged header may claim a huge size.
    while chunk := file.read(min(1 << 20, expected + 1 - len(content))):
      content += chunk
  if len(content) != expected:
    found = "more" if len(content) > expected else f"{len(content):,}"
    raise DataError(
      path,
      f"expected {expected:,} bytes of data for the shape {shape}, found "
      f"{found}. Copy or download it again.",
    )
  return np.frombuffer(content, dtype).reshape(shape)


def find_and_read(
  data_dir: pathlib.Path | None, name: str, *, what: str
) -> tuple[pathlib.Path, tuple[LabeledImages, LabeledImages]]:
  """Finds MNIST or a similar data set; returns its folder and images."""
  files = "train-images-idx3-ubyte and its three companions"
  data_dir = data_files.require(data_dir, what=what, files=files)
  for directory in (data_dir, data_dir / name):
    if has_half(directory, "train"):
      return directory, read_halves(directory, what=what)
  directory_of_version = tfds_format.find(data_dir, name)
  if directory_of_version is None:
    raise DataError(
      data_dir,
      f"has no {what}; expected {files} there or in {name}/, or {name}/ as "
      f"tensorflow-datasets prepares it; see {data_files.PAGE}.",
    )
  return directory_of_version, tfds_format.read(directory_of_version)


def has_half(directory: pathlib.Path, half: str) -> bool:
  """Returns whether a directory has the images of a half, such as "train"."""
  names = _names(f"{half}-images-idx3-ubyte")
  return any((directory / name).exists() for name in names)


def has_writers(directory: pathlib.Path) -> bool:
  """Returns whether QMNIST's training and test labels exist."""
  return all(
    any((directory / name).exists() for name in _names(file))
    for file in _WRITERS
  )


def read_halves(
  directory: pathlib.Path,
  *,
  train: str = "train",
  test: str = "t10k",
  what: str,
) -> tuple[LabeledImages, LabeledImages]:
  """Returns training and test images, uint8[n, height, width, 1]."""
  return (_read_half(directory, train, what), _read_half(directory, test, what))


def read_writers(
  directory: pathlib.Path, labels: Sequence[np.ndarray]
) -> np.ndarray:
  """Returns the writers of MNIST's digits, int64[n], from QMNIST's labels."""
  paths = [
    data_files.first_existing(directory, _names(file), what="QMNIST labels")
    for file in _WRITERS
  ]
  return np.concatenate(list(map(_writers_of, paths, labels)))


def _names(file: str) -> list[str]:
  # Some tools unpack train-images-idx3-ubyte as train-images.idx3-ubyte.
  return [
    f"{name}{ending}"
    for name in (file, file.replace("-idx", ".idx"))
    for ending in ("", ".gz")
  ]


def _read_half(directory: pathlib.Path, half: str, what: str) -> LabeledImages:
  images_path, labels_path = (
    data_files.first_existing(directory, _names(f"{half}-{kind}"), what=what)
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
  )
  images = read_idx(images_path, 3)
  labels = read_idx(labels_path, 1)
  for path, array in [(images_path, images), (labels_path, labels)]:
    if array.dtype != np.uint8:
      raise DataError(path, f"holds {array.dtype}, expected bytes.")
  return LabeledImages(
    images=images[..., np.newaxis],
    labels=labels.astype(np.int32),
    source=f"{images_path}, {labels_path.name}",
  )


def _writers_of(path: pathlib.Path, labels: np.ndarray) -> np.ndarray:
  """Returns a half's writers, int64[n], from its file of QMNIST's labels.

  The file's labels must equal `labels`, which are MNIST's.
  """
  table = read_idx(path, 2)
  # QMNIST's test digits are those of MNIST, followed by others.
  if table.shape[1] <= _WRITER or len(table) < len(labels):
    raise DataError(
      path,
      f"has {len(table):,} rows of {table.shape[1]}, expected at least "
      f"{len(labels):,} rows with the writer in column {_WRITER}.",
    )
  table = table[: len(labels)]
  different = np.flatnonzero(table[:, _CLASS] != labels)
  if different.size:
    raise DataError(
      path,
      f"row {different[0]} (counted from 0) has the label "
      f"{table[different[0], _CLASS]}, but MNIST's is {labels[different[0]]}: "
      "the rows are not those of the images.",
    )
  return table[:, _WRITER].astype(np.int64)
