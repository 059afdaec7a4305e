"""Images as client data: published sets, and folders of images.

The published sets are CIFAR, MNIST, and other sets in MNIST's format. CIFAR has
the features of `tff.simulation.datasets.cifar100`, and MNIST those of `emnist`,
whose background is 1. Clients are the writers in QMNIST's labels, or folders of
images; without these, the images are divided among artificial clients.
"""

import pathlib
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks import cuts, notices
from tasks.conversions.client_data_writer import Example
from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import (
  cifar,
  data_files,
  example_checks,
  example_proto,
  mnist,
)
from tasks.formats.images import read_image
from tasks.tabular import reading
from tasks.tabular.columns import Texts

MNIST_TRAIN, MNIST_TEST = "digits_only_train", "digits_only_test"


class CentralImages(NamedTuple):
  """Images whose labels are known before the images are read."""

  labels: np.ndarray  # Labels, int64[num_examples].
  splits: Sequence[str]  # The published split of each image, if any.
  # Maps a position to a serialized `tf.train.Example`.
  serialized: Callable[[int], bytes]
  clients: Sequence[str] = ()  # The client of each image, if known.
  classes: Sequence[str] = ()  # Names of the classes, if they have names.
  # Number of files and rows that did not become images, by reason.
  left_out: Mapping[str, int] = types.MappingProxyType({})


def examples_by_client(
  images: CentralImages,
  clients: Mapping[str, np.ndarray] | None = None,
  *,
  keep_splits: bool,
  on_example: data_files.OnRead = data_files.ignore,
) -> Iterator[Example]:
  """Yields the examples, grouped by client."""
  if clients is None:
    grouped = cuts.by_value(np.array(images.clients))
    clients = dict(zip(*grouped, strict=True))
  for name, positions in clients.items():
    for position in positions:
      yield Example(
        name,
        images.serialized(position),
        images.splits[position] if keep_splits else None,
      )
      on_example(1)


def cifar_images(directory: pathlib.Path) -> tuple[str, CentralImages]:
  """Returns the name of the file to write, and the images of all batches."""
  kind, folder = _cifar_folder(directory)
  pixels, labels, splits = cifar.read_all(folder, kind)

  def serialized(position: int) -> bytes:
    own_labels = {name: labels[name][[position]] for name in labels}
    return example_proto.serialize({"image": pixels[position], **own_labels})

  images = CentralImages(labels["label"], splits, serialized)
  return f"{kind.name}.sqlite", images


def _cifar_folder(
  directory: pathlib.Path,
) -> tuple[cifar.CifarVersion, pathlib.Path]:
  for kind in (cifar.CIFAR10, cifar.CIFAR100):
    if folder := cifar.find(directory, kind):
      return kind, folder
  raise DataError(
    directory,
    "holds neither all batches of CIFAR-10 (data_batch_1 to data_batch_5 and "
    "test_batch) nor those of CIFAR-100 (train and test), with .bin or "
    "without.",
  )


def mnist_images(directory: pathlib.Path) -> CentralImages:
  """Returns training and test images, with clients if QMNIST's labels exist."""
  halves = mnist.read_halves(directory, what="MNIST")
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
  writers: list[str] = []
  if mnist.has_writers(directory):
    found = mnist.read_writers(directory, [half.labels for half in halves])
    writers = [f"nist_writer_{writer:04}" for writer in found]
  return CentralImages(labels, splits, serialized, writers)


# Folders of images, one for each class or one for each client.
#
# A folder, or its folders train and test, may have one of three layouts:
#
#   CLASS/IMAGE          images without clients
#   CLIENT/CLASS/IMAGE   the images of each client, by class
#   CLIENT/IMAGE         with a file labels.csv in the folder, whose columns are
#                        file, such as CLIENT/IMAGE, and label; it is read like
#                        a CSV file of the task table
#
# The features are image, the bytes of an RGB image row by row as in
# tff.simulation.datasets.cifar100; its shape; and label, the index of the class
# in alphabetical order.


FOLDER_FILENAME = "images.sqlite"

_LABELS = "labels.csv"
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_HALVES = ("train", "test")
_LAYOUTS = f"CLASS/IMAGE, CLIENT/CLASS/IMAGE, or CLIENT/IMAGE with {_LABELS}"


class _Image(NamedTuple):
  path: pathlib.Path
  label: str
  client: str | None
  half: str


def folder_images(
  path: pathlib.Path, image_size: int | None = None
) -> CentralImages:
  """Returns the images under a folder, to be read on demand."""
  halves = [path / half for half in _HALVES]
  has_halves = all(half.is_dir() for half in halves)
  roots = halves if has_halves else [path]
  left_out: Counter[str] = Counter()
  found = [image for root in roots for image in _images(root, left_out)]
  if has_halves:
    _check_halves(path, found)
  tables = {root / _LABELS for root in roots}
  left_out += count_unread_files(path, tables | {image.path for image in found})
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
    left_out,
  )


def count_unread_files(
  folder: pathlib.Path, read: Collection[pathlib.Path]
) -> Counter[str]:
  """Counts, by ending, the files under a folder that are not in `read`."""
  others = notices.endings(p for p in folder.rglob("*") if p not in read)
  return Counter(
    {f"file {end}, which is not read": n for end, n in others.items()}
  )


def _check_halves(path: pathlib.Path, found: list[_Image]) -> None:
  train, test = (
    [image for image in found if image.half == half] for half in _HALVES
  )
  if (train[0].client is None) != (test[0].client is None):
    raise DataError(
      path,
      "only one of train and test has folders of clients; give both, or "
      "neither, such folders.",
    )
  # With clients, a class may be missing from train or from test.
  one_sided = {image.label for image in train} ^ {image.label for image in test}
  if train[0].client is None and one_sided:
    raise DataError(
      path, f"the class {min(one_sided)} is in only one of train and test."
    )


def _images(root: pathlib.Path, left_out: Counter[str]) -> Iterator[_Image]:
  """Yields images in path order; counts labels without images in `left_out`."""
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
  names = {path.relative_to(root).as_posix() for path in paths}
  if others := label_of.keys() - names:
    left_out[f"row of {_LABELS} whose file is not an image there"] += len(
      others
    )
  for path in paths:
    name = path.relative_to(root).as_posix()
    if name not in label_of:
      raise DataError(table, f"has no label for {name}.")
    yield _Image(path, label_of[name], path.parent.name, root.name)


def _folders(root: pathlib.Path) -> list[pathlib.Path]:
  with reporting_unreadable(root):
    found = sorted(entry for entry in root.iterdir() if entry.is_dir())
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
      f"there is no image; expected files that end in {', '.join(_SUFFIXES)}.",
    )
  return found


def _labels(path: pathlib.Path) -> dict[str, str]:
  """Returns the labels in a table, by file name."""
  table = reading.open_table(path)
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
