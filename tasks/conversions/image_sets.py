"""Published sets of images: CIFAR, and MNIST and data sets in its format.

Their features are those that `tff.simulation.datasets` has: of `cifar100` for
CIFAR, of `emnist`, with its background of 1, for MNIST. Digits have writers
where QMNIST's labels are; all other images are dealt out to made-up clients.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks.conversions.client_data_file import Example
from tasks.data_error import DataError
from tasks.formats import (
  cifar,
  data_files,
  example_checks,
  example_proto,
  mnist,
)

MNIST_FILENAME = "emnist_all.sqlite"
MNIST_TRAIN, MNIST_TEST = "digits_only_train", "digits_only_test"


class CentralImages(NamedTuple):
  """Images whose labels are known before they are read.

  Attributes:
    labels: Labels, int64[num_examples].
    splits: The half of each image in the data as published, "train" or "test";
      empty where it has no halves.
    serialized: Returns the `tf.train.Example` of the image at a position.
    clients: The client of each image; empty where images come without.
    classes: The names of the classes in the order of their numbers; empty
      where the data has none.
  """

  labels: np.ndarray
  splits: Sequence[str]
  serialized: Callable[[int], bytes]
  clients: Sequence[str] = ()
  classes: Sequence[str] = ()


def deal(
  images: CentralImages,
  clients: Mapping[str, np.ndarray],
  *,
  keep_splits: bool,
  on_example: Callable[[int], object],
) -> Iterator[Example]:
  """Yields the examples, client by client.

  Args:
    images: The images.
    clients: Positions of each client's images, by the client's name.
    keep_splits: Whether images stay in the half they are published in; if not,
      that is left to the cut.
    on_example: Called with 1 after each image.
  """
  for name, positions in clients.items():
    for position in positions:
      yield Example(
        name,
        images.serialized(position),
        images.splits[position] if keep_splits else None,
      )
      on_example(1)


def cifar_images(directory: pathlib.Path) -> tuple[str, CentralImages]:
  """Returns the name of the file to write, and the images of all batches.

  Args:
    directory: Where all the batches of CIFAR-10 or of CIFAR-100 are, Python
      pickles or in the binary version, under their usual names.

  Raises:
    DataError: If a batch is missing or not as it must be.
  """
  kind, folder = _cifar_folder(directory)
  splits: list[str] = []
  batches = []
  for path, split in cifar.batches(folder, kind).items():
    batches.append(cifar.read_batch(path))
    splits += [split] * len(batches[-1][0])
  pixels = np.concatenate([pixels for pixels, _ in batches])
  labels = {
    name: np.concatenate([labels[name] for _, labels in batches])
    for name in kind.labels
  }

  def serialized(position: int) -> bytes:
    planes = pixels[position].reshape(3, cifar.SIDE, cifar.SIDE)
    own_labels = {name: labels[name][[position]] for name in labels}
    return example_proto.serialize(
      {"image": planes.transpose(1, 2, 0), **own_labels}
    )

  images = CentralImages(labels["label"], splits, serialized)
  return f"{kind.name}.sqlite", images


def _cifar_folder(directory: pathlib.Path) -> tuple[cifar.Kind, pathlib.Path]:
  for kind in (cifar.CIFAR10, cifar.CIFAR100):
    if folder := cifar.find(directory, kind):
      return kind, folder
  raise DataError(
    directory,
    "holds neither all batches of CIFAR-10 (data_batch_1 to data_batch_5 and "
    "test_batch) nor those of CIFAR-100 (train and test), with .bin or "
    "without.",
  )


def mnist_images(
  directory: pathlib.Path, on_read: data_files.OnRead = data_files.ignore
) -> CentralImages:
  """Returns the images of both halves.

  Args:
    directory: Where the idx files are, under their usual names, compressed with
      gzip or not.
    on_read: Told how much was read.

  Raises:
    DataError: If a file is missing or not as it must be.
  """
  halves = mnist.read_halves(directory, what="MNIST", on_read=on_read)
  for half in halves:
    if half.images.shape[1:] != (28, 28, 1):
      raise DataError(
        half.source,
        f"holds images of shape {list(half.images.shape[1:-1])}, expected 28 "
        "x 28.",
      )
    example_checks.check_labels(half.labels, 10, half.source)
  pixels = np.concatenate([half.images[..., 0] for half in halves])
  labels = np.concatenate([half.labels for half in halves]).astype(np.int64)

  def serialized(position: int) -> bytes:
    background = np.float32(255)
    return example_proto.serialize(
      {
        "label": labels[[position]],
        "pixels": (background - pixels[position]) / background,
      }
    )

  train, test = halves
  splits = [MNIST_TRAIN] * len(train.labels) + [MNIST_TEST] * len(test.labels)
  return CentralImages(labels, splits, serialized)


def mnist_by_writer(
  directory: pathlib.Path,
  *,
  keep_splits: bool,
  on_read: data_files.OnRead = data_files.ignore,
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
  found = mnist_images(directory, on_read)
  num_train = found.splits.count(MNIST_TRAIN)
  writers = mnist.read_writers(
    directory, np.split(found.labels, [num_train]), on_read
  )
  for position, writer in enumerate(writers):
    yield Example(
      f"nist_writer_{writer:04}",
      found.serialized(position),
      found.splits[position] if keep_splits else None,
    )
