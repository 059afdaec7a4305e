"""Labelled images in memory, in folders, or in lists of files."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tasks import notices
from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import data_files, source_files


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LabeledImages:
  """Images in memory, in the order of their files."""

  images: np.ndarray  # uint8[n, height, width, channels].
  labels: np.ndarray  # Class numbers, int32[n].
  source: str  # The files, for error messages.

  def __post_init__(self) -> None:
    if len(self.images) != len(self.labels):
      raise DataError(
        self.source,
        f"{len(self.images):,} images, but {len(self.labels):,} labels.",
      )

  def resized(self, size: int) -> "LabeledImages":
    """Returns the images, resized to `size` x `size` pixels."""
    return dataclasses.replace(self, images=resize(self.images, size))


def resize(images: Any, size: int) -> np.ndarray:
  """Resizes images, uint8[..., height, width, channels], to `size` x `size`."""
  import tensorflow as tf  # noqa: PLC0415

  # Antialiasing makes each pixel of a smaller image a mean of several.
  floats = tf.image.resize(images, [size, size], antialias=True)
  return tf.cast(tf.clip_by_value(tf.round(floats), 0, 255), tf.uint8).numpy()


def read_image(path: pathlib.Path, image_size: int | None = None) -> np.ndarray:
  """Returns an image in colour, uint8[height, width, 3].

  If `image_size` is given, both sides are resized to it.
  """
  import tensorflow as tf  # noqa: PLC0415

  with reporting_unreadable(path):
    content = path.read_bytes()
  try:
    image = tf.io.decode_image(content, channels=3, expand_animations=False)
    if image_size is not None:
      return resize(image, image_size)
  except tf.errors.OpError as error:
    reason = " ".join(str(error).partition("[Op")[0].split())
    raise DataError(path, f"is not an image: {reason}") from error
  return image.numpy()


_ENDINGS = (".png", ".jpg", ".jpeg")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LabeledPaths:
  """Paths of images on disk, and their labels."""

  root: pathlib.Path  # The folder that paths are relative to.
  # Paths of the images, bytes[n]; a million take 60 MB.
  paths: np.ndarray
  labels: np.ndarray  # Class numbers, int32[n].
  source: str  # The folder or list, for error messages.


def class_folders(
  root: pathlib.Path, half: str, class_names: Sequence[str], inside: str = ""
) -> LabeledPaths:
  """Lists the images in the folders HALF/CLASS/INSIDE, sorted by name."""
  images: list[tuple[str, int]] = []
  left_out: list[pathlib.Path] = []
  for label, name in enumerate(class_names):
    folder = pathlib.PurePosixPath(half, name, inside)
    with reporting_unreadable(root / folder):
      entries = sorted((root / folder).iterdir())
    found = [e.name for e in entries if e.suffix.lower() in _ENDINGS]
    left_out += [e for e in entries if e.suffix.lower() not in _ENDINGS]
    if not found:
      raise DataError(
        root / folder,
        f"has no images; expected files that end in {', '.join(_ENDINGS)}.",
      )
    images += [(str(folder / file), label) for file in found]
  notices.notify_left_out(root / half, left_out, _ENDINGS)
  return paths_from_list(root, root / half, images)


def paths_from_list(
  root: pathlib.Path, source: pathlib.Path, images: Iterable[tuple[str, int]]
) -> LabeledPaths:
  """Converts pairs of a path below `root` and a label to `LabeledPaths`."""
  found = list(images)
  if not found:
    raise DataError(source, "lists no images.")
  paths, labels = zip(*found, strict=True)
  source_files.note(*(root / path for path in paths))
  return LabeledPaths(
    root=root,
    paths=np.array([path.encode() for path in paths]),
    labels=np.array(labels, np.int32),
    source=str(source),
  )


def concatenate(halves: Sequence[LabeledPaths]) -> LabeledPaths:
  """Joins the images of several folders or lists that have the same root."""
  return LabeledPaths(
    root=halves[0].root,
    paths=np.concatenate([half.paths for half in halves]),
    labels=np.concatenate([half.labels for half in halves]),
    source=", ".join(half.source for half in halves),
  )


def read_images(
  root: pathlib.Path, paths: np.ndarray, image_size: int, *, resize: bool
) -> np.ndarray:
  """Reads images in colour, uint8[n, image_size, image_size, 3].

  Images of other sizes are resized, or refused if `resize` is false.
  """
  images = np.empty([len(paths), image_size, image_size, 3], np.uint8)
  for k, encoded in enumerate(paths):
    path = root / encoded.decode()
    image = read_image(path, image_size if resize else None)
    if image.shape != images.shape[1:]:
      raise DataError(
        path,
        f"has {image.shape[0]} x {image.shape[1]} pixels, expected "
        f"{image_size} x {image_size}.",
      )
    images[k] = image
  return images


def lines(path: pathlib.Path) -> Iterator[tuple[str, str]]:
  """Yields each non-empty line: its position, for errors, and its text."""
  yield from (found for found in data_files.lines(path) if found[1])
