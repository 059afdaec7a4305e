"""Folders of images, one folder a class.

Features are `image`, the bytes of an RGB image row by row as in
`tff.simulation.datasets.cifar100`, with its `shape`, and `label`, the place of
the class among all in alphabetical order.
"""

import pathlib

import numpy as np

from tasks.conversions.central_images import CentralImages
from tasks.data_error import DataError
from tasks.formats import example_proto, image_file

FILENAME = "images.sqlite"

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif"}
_HALVES = ("train", "test")


def images(path: pathlib.Path, image_size: int | None = None) -> CentralImages:
  """Returns the images under a folder; each is read on demand.

  Args:
    path: A folder with a folder of images for each class, or one with the
      folders `train` and `test` of such folders.
    image_size: Side that images are resized to; None leaves them as they are.

  Raises:
    DataError: If there are no images, or a class is missing in one half.
  """
  halves = [path / half for half in _HALVES]
  has_halves = all(half.is_dir() for half in halves)
  roots = halves if has_halves else [path]
  classes = [_classes(root) for root in roots]
  if any(names != classes[0] for names in classes):
    (name, *_) = sorted(set(classes[0]) ^ set(classes[-1]))
    raise DataError(
      f"{path}: the class {name} is not both in train and in test."
    )
  paths, labels, splits = [], [], []
  for root in roots:
    for label, name in enumerate(classes[0]):
      found = sorted(
        file
        for file in (root / name).rglob("*")
        if file.suffix.lower() in _SUFFIXES
      )
      if not found:
        raise DataError(
          f"{root / name}: there is no image; expected files that end in "
          f"{', '.join(sorted(_SUFFIXES))}."
        )
      paths += found
      labels += [label] * len(found)
      splits += [root.name] * len(found)

  def serialized(position: int) -> bytes:
    image = image_file.read(paths[position], image_size)
    return example_proto.serialize(
      {
        "image": image,
        "label": np.array([labels[position]]),
        "shape": np.array(image.shape),
      }
    )

  return CentralImages(
    np.array(labels, np.int64), splits if has_halves else [], serialized
  )


def _classes(root: pathlib.Path) -> list[str]:
  try:
    found = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
  except OSError as error:
    raise DataError(f"{root}: cannot be read: {error.strerror}.") from error
  if not found:
    raise DataError(
      f"{root}: has no folders; expected one for each class of images."
    )
  return found
