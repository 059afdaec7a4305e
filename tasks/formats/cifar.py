"""Reads CIFAR-10 and CIFAR-100 as published: Python or binary batches, or npz.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009);
https://www.cs.toronto.edu/~kriz/cifar.html describes the batches. An npz file
holds x_train, y_train, x_test and y_test, as Keras names them. JPEG copies may
replace x: jpeg_train, the concatenated bytes of all training images, and
offset_train, int[n + 1], the position at which each image begins.
"""

import io
import pathlib
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files, example_checks, npz
from tasks.formats.images import LabeledImages

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_SHAPE = (_SIDE, _SIDE, 3)


class CifarVersion(NamedTuple):
  """CIFAR-10 or CIFAR-100, as published."""

  name: str  # "cifar10" or "cifar100".
  # Folder names of the Python version and the binary version.
  folders: tuple[str, str]
  # Maps a batch's file name, without ending, to its split: "train" or "test".
  splits: Mapping[str, str]
  # Maps a label's name to its key in pickled batches and its number of classes.
  labels: Mapping[str, tuple[bytes, int]]


CIFAR10 = CifarVersion(
  "cifar10",
  ("cifar-10-batches-py", "cifar-10-batches-bin"),
  {**{f"data_batch_{n}": "train" for n in range(1, 6)}, "test_batch": "test"},
  {"label": (b"labels", 10)},
)
CIFAR100 = CifarVersion(
  "cifar100",
  ("cifar-100-python", "cifar-100-binary"),
  {"train": "train", "test": "test"},
  {"coarse_label": (b"coarse_labels", 20), "label": (b"fine_labels", 100)},
)

# CIFAR's pickles need only these functions; others could run any code.
_ALLOWED_GLOBALS = {
  ("numpy.core.multiarray", "_reconstruct"),
  ("numpy", "ndarray"),
  ("numpy", "dtype"),
  ("_codecs", "encode"),
}


class _SafeUnpickler(pickle.Unpickler):
  def find_class(self, module: str, name: str) -> object:
    # Pickles from NumPy 2 have the new name numpy._core.
    module = module.replace("numpy._core", "numpy.core")
    if (module, name) not in _ALLOWED_GLOBALS:
      raise pickle.UnpicklingError(
        f"it would call {module}.{name}, which no CIFAR batch does"
      )
    return super().find_class(module, name)


def read_batch(path: pathlib.Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  """Returns pixels, uint8[n, 3072], and labels, int64[n] by name."""
  kind = kind_of(path)
  if kind is None:
    raise DataError(path, "does not have the name of a CIFAR batch.")
  with data_files.open_file(path) as file:
    content = file.read()
  parse = _from_bytes if path.suffix == ".bin" else _from_pickle
  pixels, labels = parse(path, content, kind)
  for name, (_, num_classes) in kind.labels.items():
    example_checks.check_labels(labels[name], num_classes, str(path))
  return pixels, labels


def _from_bytes(
  path: pathlib.Path, content: bytes, kind: CifarVersion
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  row = len(kind.labels) + _PIXELS
  if not content or len(content) % row:
    raise DataError(
      path,
      f"has {len(content):,} bytes, expected a multiple of {row:,}, those of "
      "an image: it is truncated, or not a CIFAR batch.",
    )
  rows = np.frombuffer(content, np.uint8).reshape(-1, row)
  columns = zip(kind.labels, rows.T, strict=False)
  return rows[:, len(kind.labels) :], {
    name: column.astype(np.int64) for name, column in columns
  }


def _from_pickle(
  path: pathlib.Path, content: bytes, kind: CifarVersion
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  with data_files.reporting_damage(
    path, "is not a pickle of a CIFAR batch, or truncated"
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
      path,
      "is not a CIFAR batch: expected data and "
      f"{', '.join(key.decode() for key, _ in kind.labels.values())}.",
    ) from error
  expected = (len(labels["label"]), _PIXELS) if labels["label"].ndim else ()
  if pixels.dtype != np.uint8 or pixels.shape != expected:
    raise DataError(
      path,
      f"holds data {pixels.dtype}{list(pixels.shape)}, expected "
      f"uint8{list(expected)}, a row for each label.",
    )
  return pixels, labels


def kind_of(path: pathlib.Path) -> CifarVersion | None:
  """Returns the kind of batch that a file's name indicates, if any."""
  stem = path.name.removesuffix(".bin")
  return next(
    (kind for kind in (CIFAR10, CIFAR100) if stem in kind.splits), None
  )


def find(directory: pathlib.Path, kind: CifarVersion) -> pathlib.Path | None:
  """Returns the folder with the batches, if there is one."""
  first, *_, test = kind.splits
  for folder in (directory, *(directory / name for name in kind.folders)):
    # Requires the test batch, too: a file "train" may be of another data set.
    if any(
      all((folder / f"{name}{ending}").is_file() for name in (first, test))
      for ending in ("", ".bin")
    ):
      return folder
  return None


def read_all(
  folder: pathlib.Path, kind: CifarVersion
) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
  """Returns images, labels by name, and the split of each image.

  Images are uint8[n, 32, 32, 3], training images first; labels are int64[n]; a
  split is "train" or "test".
  """
  batches = [read_batch(path) for path in _paths(folder, kind)]
  pixels = np.concatenate([pixels for pixels, _ in batches])
  # Batches store images channel by channel.
  planes = pixels.reshape(-1, 3, _SIDE, _SIDE)
  splits = [
    split
    for split, (_, labels) in zip(kind.splits.values(), batches, strict=True)
    for _ in labels["label"]
  ]
  return (
    np.ascontiguousarray(planes.transpose(0, 2, 3, 1)),
    {
      name: np.concatenate([labels[name] for _, labels in batches])
      for name in kind.labels
    },
    splits,
  )


def _paths(folder: pathlib.Path, kind: CifarVersion) -> list[pathlib.Path]:
  """Returns the paths of a folder's batches, in Python's or binary format."""
  first, *_ = kind.splits
  ending = "" if (folder / first).is_file() else ".bin"
  return [folder / f"{name}{ending}" for name in kind.splits]


def read(
  folder: pathlib.Path, kind: CifarVersion
) -> tuple[LabeledImages, LabeledImages]:
  """Returns training and test images, read by `read_all`."""
  images, labels, splits = read_all(folder, kind)
  num_train = splits.count("train")
  *train_paths, test_path = _paths(folder, kind)
  train_path = train_paths[0] if len(train_paths) == 1 else folder

  def half(rows: slice, source: pathlib.Path) -> LabeledImages:
    return LabeledImages(
      images=images[rows],
      # "label" is the name of CIFAR-100's fine labels.
      labels=labels["label"][rows].astype(np.int32),
      source=str(source),
    )

  return (
    half(slice(num_train), train_path),
    half(slice(num_train, None), test_path),
  )


def read_npz(path: pathlib.Path) -> tuple[LabeledImages, LabeledImages]:
  """Returns the training and test images of an npz file, with their labels."""
  names = ("x", "jpeg", "offset")
  arrays = npz.read(
    path,
    ["y_train", "y_test"],
    optional=[f"{name}_{half}" for half in ("train", "test") for name in names],
    what="CIFAR in an npz file",
  )
  train, test = (
    LabeledImages(
      images=_npz_images(path, arrays, half),
      labels=_npz_labels(path, arrays[f"y_{half}"]),
      source=str(path),
    )
    for half in ("train", "test")
  )
  return train, test


def _npz_images(
  path: pathlib.Path, arrays: Mapping[str, np.ndarray], half: str
) -> np.ndarray:
  x, jpeg, offset = (
    arrays.get(f"{name}_{half}") for name in ("x", "jpeg", "offset")
  )
  if jpeg is not None and offset is not None:
    return _decoded(f"{path}, jpeg_{half}", jpeg, offset)
  if x is None:
    raise DataError(
      path, f"has no x_{half}, and no jpeg_{half} with offset_{half}."
    )
  if x.dtype != np.uint8 or x.shape[1:] != _SHAPE:
    raise DataError(
      path,
      f"has images {x.dtype}{list(x.shape)}, expected uint8[n, 32, 32, 3].",
    )
  return x


def _npz_labels(path: pathlib.Path, y: np.ndarray) -> np.ndarray:
  if y.dtype.kind not in "iu" or y.ndim == 0 or y.size != len(y):
    raise DataError(
      path, f"has labels {y.dtype}{list(y.shape)}, expected integers [n]."
    )
  return y.reshape(-1).astype(np.int32)


def _decoded(place: str, jpeg: np.ndarray, offset: np.ndarray) -> np.ndarray:
  """Decodes concatenated JPEG images; returns uint8[n, 32, 32, 3]."""
  import tensorflow as tf  # noqa: PLC0415

  if (
    jpeg.dtype != np.uint8
    or offset.dtype.kind not in "iu"
    or jpeg.ndim != 1
    or offset.ndim != 1
    or not offset.size
    or (np.diff(offset.astype(np.int64)) < 0).any()
    or [offset[0], offset[-1]] != [0, len(jpeg)]
  ):
    raise DataError(
      place,
      "expected uint8[bytes], and offsets that rise from 0 to their number; "
      f"found {jpeg.dtype}{list(jpeg.shape)} and "
      f"{offset.dtype}{list(offset.shape)}.",
    )
  content = jpeg.tobytes()
  images = np.empty([len(offset) - 1, *_SHAPE], np.uint8)
  for k in range(len(images)):
    try:
      # Decodes as Pillow and libjpeg do by default.
      images[k] = tf.io.decode_jpeg(
        content[offset[k] : offset[k + 1]],
        channels=3,
        dct_method="INTEGER_ACCURATE",
      )
    except (tf.errors.OpError, ValueError) as error:
      raise DataError(
        f"{place}, image {k}",
        f"is not a JPEG image of 32 x 32 pixels: {data_files.reason(error)}.",
      ) from error
  return images
