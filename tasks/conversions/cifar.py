"""CIFAR-10 and CIFAR-100, as Python pickles or in the binary version.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009).
Features are those of `tff.simulation.datasets.cifar100`.
"""

import pathlib

import numpy as np

from tasks.conversions.central_images import CentralImages
from tasks.data_error import DataError
from tasks.formats import cifar_batch, example_proto, source_file


def files(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns the batches in a directory.

  Raises:
    DataError: If it does not hold all batches of a version of CIFAR.
  """
  return list(_find(directory)[1])


def filename(directory: pathlib.Path) -> str:
  """Returns the name of the file to write, after the kind of CIFAR.

  Raises:
    DataError: If the directory does not hold all batches of either kind.
  """
  return f"{_find(directory)[0].name}.sqlite"


def images(
  directory: pathlib.Path, on_read: source_file.OnRead = source_file.ignore
) -> CentralImages:
  """Returns the images of all batches.

  Args:
    directory: Where all the batches of CIFAR-10 or of CIFAR-100 are, under
      their usual names.
    on_read: Told how much was read.

  Raises:
    DataError: If a batch is missing or not as it must be.
  """
  kind, batches = _find(directory)
  pixels, labels, splits = [], [], []
  for path, split in batches.items():
    batch_pixels, batch_labels = cifar_batch.read(path, on_read)
    pixels.append(batch_pixels)
    labels.append(batch_labels)
    splits += [split] * len(batch_pixels)
  all_pixels = np.concatenate(pixels)
  all_labels = {
    name: np.concatenate([batch[name] for batch in labels])
    for name in kind.labels
  }

  def serialized(position: int) -> bytes:
    planes = all_pixels[position].reshape(3, cifar_batch.SIDE, cifar_batch.SIDE)
    return example_proto.serialize(
      {
        "image": planes.transpose(1, 2, 0),
        **{
          name: all_labels[name][position : position + 1] for name in all_labels
        },
      }
    )

  return CentralImages(all_labels["label"], splits, serialized)


def _find(
  directory: pathlib.Path,
) -> tuple[cifar_batch.Kind, dict[pathlib.Path, str]]:
  for kind in (cifar_batch.CIFAR10, cifar_batch.CIFAR100):
    for suffix in ("", ".bin"):
      batches = {
        directory / f"{stem}{suffix}": split
        for stem, split in kind.splits.items()
      }
      if all(path.is_file() for path in batches):
        return kind, batches
  raise DataError(
    f"{directory}: holds neither all batches of CIFAR-10 (data_batch_1 to "
    "data_batch_5 and test_batch) nor those of CIFAR-100 (train and test), "
    "with .bin or without."
  )
