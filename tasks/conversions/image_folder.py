"""Folders of images: one for each class, or one for each client.

Three layouts of a folder, or of its folders `train` and `test`:

  CLASS/IMAGE          images without clients
  CLIENT/CLASS/IMAGE   the images of each client, by class
  CLIENT/IMAGE         with a file labels.csv in the folder, whose columns are
                       `file`, such as CLIENT/IMAGE, and `label`; it is read
                       as the task `table` reads a CSV file

Features are `image`, the bytes of an RGB image row by row as in
`tff.simulation.datasets.cifar100`, with its `shape`, and `label`, the place of
the class among all in alphabetical order.
"""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tasks.conversions.image_sets import CentralImages
from tasks.data_error import DataError
from tasks.formats import example_proto
from tasks.formats.images import read_image
from tasks.tabular import reading
from tasks.tabular.columns import Texts

FILENAME = "images.sqlite"

_LABELS = "labels.csv"
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif"}
_HALVES = ("train", "test")
_LAYOUTS = f"CLASS/IMAGE, CLIENT/CLASS/IMAGE, or CLIENT/IMAGE with {_LABELS}"


class _Image(NamedTuple):
  path: pathlib.Path
  label: str
  client: str | None
  half: str


def images(path: pathlib.Path, image_size: int | None = None) -> CentralImages:
  """Returns the images under a folder; each is read on demand.

  Args:
    path: A folder in one of the layouts above, or one with the folders `train`
      and `test` in the same layout.
    image_size: Side that images are resized to; None leaves them as they are.

  Raises:
    DataError: If there are no images, they lie in another way, an image has no
      label, or a class without clients is missing in one half.
  """
  halves = [path / half for half in _HALVES]
  has_halves = all(half.is_dir() for half in halves)
  roots = halves if has_halves else [path]
  found = [image for root in roots for image in _images(root)]
  if has_halves:
    _check_halves(path, found)
  classes = sorted({image.label for image in found})
  number = {name: k for k, name in enumerate(classes)}
  labels = np.array([number[image.label] for image in found], np.int64)

  def serialized(position: int) -> bytes:
    pixels = read_image(found[position].path, image_size)
    return example_proto.serialize(
      {
        "image": pixels,
        "label": labels[[position]],
        "shape": np.array(pixels.shape),
      }
    )

  return CentralImages(
    labels,
    [image.half for image in found] if has_halves else [],
    serialized,
    [image.client for image in found if image.client is not None],
    classes,
  )


def _check_halves(path: pathlib.Path, found: list[_Image]) -> None:
  train, test = (
    [image for image in found if image.half == half] for half in _HALVES
  )
  if (train[0].client is None) != (test[0].client is None):
    raise DataError(
      path, "one of train and test has folders of clients, the other has none."
    )
  # A client may lack a class in one half.
  one_sided = {image.label for image in train} ^ {image.label for image in test}
  if train[0].client is None and one_sided:
    raise DataError(
      path, f"the class {min(one_sided)} is not both in train and in test."
    )


def _images(root: pathlib.Path) -> Iterator[_Image]:
  """Yields the images of a folder in the order of their paths."""
  paths = [path for folder in _folders(root) for path in _paths(folder)]
  levels = [len(path.relative_to(root).parts) for path in paths]
  low, high = min(levels), max(levels)
  if low != high or high > 3:
    found = str(paths[levels.index(high)])
    if low != high:
      found += f" beside {paths[levels.index(low)]}"
    raise DataError(root, f"found {found}; expected all as {_LAYOUTS}.")
  table = root / _LABELS
  if not table.exists():
    for path in paths:
      client = path.parent.parent.name if high == 3 else None
      yield _Image(path, path.parent.name, client, root.name)
    return
  if high == 3:
    raise DataError(table, f"labels CLIENT/IMAGE, found {paths[0]}.")
  label_of = _labels(table)
  for path in paths:
    name = path.relative_to(root).as_posix()
    if name not in label_of:
      raise DataError(table, f"has no label of {name}.")
    yield _Image(path, label_of[name], path.parent.name, root.name)


def _folders(root: pathlib.Path) -> list[pathlib.Path]:
  try:
    found = sorted(entry for entry in root.iterdir() if entry.is_dir())
  except OSError as error:
    raise DataError(root, f"cannot be read: {error.strerror}.") from error
  if not found:
    raise DataError(root, f"has no folders; expected {_LAYOUTS}.")
  return found


def _paths(folder: pathlib.Path) -> list[pathlib.Path]:
  found = sorted(
    file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES
  )
  if not found:
    raise DataError(
      folder,
      "there is no image; expected files that end in "
      f"{', '.join(sorted(_SUFFIXES))}.",
    )
  return found


def _labels(path: pathlib.Path) -> dict[str, str]:
  """Returns the label of each file that a table names."""
  table = reading.opened(path)
  reading.check_names(table, {"the images": ["file"], "their class": ["label"]})
  names = ("file", "label")
  read = reading.read(
    table, names, texts=names, categories=(), exact=(), complete=names
  )
  texts = [column for column in read.values() if isinstance(column, Texts)]
  rows = zip(
    *([c.values[code] for code in c.codes] for c in texts), strict=True
  )
  found: dict[str, str] = {}
  for row, (name, label) in enumerate(rows):
    if found.setdefault(name, label) != label:
      raise DataError(f"{path}, {table.place(row)}", f"{name} has two labels.")
  return found
