"""Reads CIFAR-10 and CIFAR-100 as published: Python or binary batches, or npz.

https://www.cs.toronto.edu/~kriz/cifar.html describes the batches. An npz file
holds x_train, y_train, x_test and y_test, as Keras names them. JPEG copies may
take the place of x: jpeg_train, the bytes of all training images one after the
other, and offset_train, int[n + 1], where each of them begins.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import cifar_batch, npz, source_file
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
  """Reads the images and labels of both halves.

  Raises:
    DataError: If the file is damaged or its arrays are not those of images of
      32 x 32 x 3 bytes.
  """
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
      f"{path}: has no x_{half}, and no jpeg_{half} with offset_{half}."
    )
  if x.dtype != np.uint8 or x.shape[1:] != _SHAPE:
    raise DataError(
      f"{path}: has images {x.dtype}{list(x.shape)}, expected "
      "uint8[n, 32, 32, 3]."
    )
  return x


def _npz_labels(path: pathlib.Path, y: np.ndarray) -> np.ndarray:
  if y.dtype.kind not in "iu" or y.ndim == 0 or y.size != len(y):
    raise DataError(
      f"{path}: has labels {y.dtype}{list(y.shape)}, expected integers [n]."
    )
  return y.reshape(-1).astype(np.int32)


def _decoded(place: str, jpeg: np.ndarray, offset: np.ndarray) -> np.ndarray:
  """Returns the images of a stream of JPEG copies, uint8[n, 32, 32, 3]."""
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
      f"{place}: expected uint8[bytes], and offsets that rise from 0 to their "
      f"number; found {jpeg.dtype}{list(jpeg.shape)} and "
      f"{offset.dtype}{list(offset.shape)}."
    )
  content = jpeg.tobytes()
  images = np.empty([len(offset) - 1, *_SHAPE], np.uint8)
  for k in range(len(images)):
    try:
      # As Pillow and libjpeg decode by default.
      images[k] = tf.io.decode_jpeg(
        content[offset[k] : offset[k + 1]],
        channels=3,
        dct_method="INTEGER_ACCURATE",
      )
    except (tf.errors.OpError, ValueError) as error:
      raise DataError(
        f"{place}, image {k}: is no JPEG image of 32 x 32 pixels: "
        f"{source_file.reason(error)}."
      ) from error
  return images


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
