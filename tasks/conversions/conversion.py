"""Plans and runs conversions of published data into files for TFF's loaders.

request = ConversionRequest(
  source_format="plays", sources=["hamlet.txt"], data_dir="data"
)
conversion = plan(request)
conversion.write()
"""

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tasks import cuts, downloads
from tasks.conversions import (
  client_data_writer,
  image_sets,
  leaf_json,
  plays,
  stack_exchange,
)
from tasks.conversions.client_data_writer import (
  DroppedCounts,
  Example,
  SplitSettings,
)
from tasks.conversions.request import (
  OF_SEVERAL_SOURCES,
  ConversionRequest,
  Format,
  Split,
)
from tasks.formats import data_files
from tff_fair.declared import FieldError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
  """A conversion that is ready to start; reads examples while it runs."""

  request: ConversionRequest  # The request to fulfil.
  filename: str  # Default name of the file to write.
  split: Split  # Which examples are test data.
  total: int  # The amount of work, in units of `unit`.
  unit: str = "B"  # "B" for bytes read, or "example".
  # Yields the examples, and reports progress.
  examples: Callable[[data_files.OnRead], Iterator[Example]]
  train: str = "train"  # Name of the split of training examples.
  test: str = "test"  # Name of the split of test examples.
  heldout: tuple[str, ...] = ()  # Names of splits besides train and test.
  # Number of posts, files, ... that did not become examples, by reason.
  left_out: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  # Files of word and tag counts to write after the data.
  tables: tuple[pathlib.Path, ...] = ()
  classes: tuple[str, ...] = ()  # Names of the classes, if they have names.

  @property
  def path(self) -> pathlib.Path:
    """The file to write."""
    request = self.request
    return request.data_dir / (request.output_name or self.filename)

  def write(
    self, on_progress: data_files.OnRead = data_files.ignore
  ) -> DroppedCounts:
    """Writes the client data atomically.

    Returns how many clients were dropped, and how many examples they had.
    """
    request = self.request
    choose_test = (
      client_data_writer.last_share(request.test_fraction)
      if self.split == "order"
      else client_data_writer.random_share(request.test_fraction, request.seed)
    )
    settings = SplitSettings(
      choose_test=choose_test,
      train=self.train,
      test=self.test,
      min_examples=request.min_examples,
      required=(self.train, self.test, *self.heldout),
    )
    examples = self.examples(on_progress)
    return client_data_writer.write(
      self.path, examples, settings, overwrite=request.overwrite
    )

  def write_tables(self) -> None:
    """Writes the files in `tables`, if any: counts of words and of tags."""
    if self.tables:
      stack_exchange.write_counts(
        self.path,
        directory=self.request.data_dir,
        overwrite=self.request.overwrite,
      )


def _check_sources(request: ConversionRequest) -> None:
  """Checks that all sources exist, and are files or folders as required."""
  name = request.source_format
  for path in request.sources:
    if not path.exists():
      raise FieldError(
        "sources", "there is no such file or folder.", value=str(path)
      )
    if name in OF_SEVERAL_SOURCES and not path.is_file():
      raise FieldError("sources", "expected a file.", value=str(path))
    if name in _FOLDERS and not path.is_dir():
      raise FieldError("sources", "expected a folder.", value=str(path))


def _stack_exchange(request: ConversionRequest) -> Conversion:
  split = _split(request, ["date", "random", "order"])
  posts = stack_exchange.StackExchangePosts(
    request.sources,
    test_date=request.test_date if split == "date" else None,
    heldout_every=request.heldout_every,
  )
  return Conversion(
    request=request,
    filename=stack_exchange.FILENAME,
    split=split,
    total=2 * _size(request.sources),  # Each dump is read twice.
    examples=posts.examples,
    heldout=(stack_exchange.HELDOUT,),
    left_out=posts.left_out,
    tables=(
      request.data_dir / stack_exchange.WORD_COUNTS,
      request.data_dir / stack_exchange.TAG_COUNTS,
    ),
  )


def _plays(request: ConversionRequest) -> Conversion:
  texts = plays.Plays(request.sources)
  return Conversion(
    request=request,
    filename=plays.FILENAME,
    split=_split(request, ["random", "order"]),
    total=_size(request.sources),
    examples=texts.examples,
    left_out=texts.left_out,
  )


def _leaf(request: ConversionRequest) -> Conversion:
  halves = leaf_json.files(request.sources[0])
  published: list[Split] = [] if None in halves else ["source"]
  split = _split(request, [*published, "random", "order"])
  left_out: collections.Counter[str] = collections.Counter()
  if request.sources[0].is_dir():
    read = {path for paths in halves.values() for path in paths}
    left_out += image_sets.count_unread_files(request.sources[0], read)
  return Conversion(
    request=request,
    filename=leaf_json.FILENAME,
    split=split,
    total=sum(map(_size, halves.values())),
    examples=lambda on_progress: leaf_json.examples(
      halves, left_out, keep_splits=split == "source", on_read=on_progress
    ),
    left_out=left_out,
  )


def _mnist(request: ConversionRequest) -> Conversion:
  (source,) = request.sources
  images = image_sets.mnist_images(source)
  # If clients are writers, the published split is not the default, since few
  # writers are in both halves.
  possible: list[Split] = ["source", "random", "order"]
  if images.clients and request.num_clients is None:
    possible = ["random", "order", "source"]
  return _images(
    request,
    images,
    downloads.EMNIST_FILENAME,
    possible,
    train=image_sets.MNIST_TRAIN,
    test=image_sets.MNIST_TEST,
  )


def _cifar(request: ConversionRequest) -> Conversion:
  (source,) = request.sources
  filename, images = image_sets.cifar_images(source)
  return _images(request, images, filename, ["source", "random", "order"])


def _image_folder(request: ConversionRequest) -> Conversion:
  images = image_sets.folder_images(request.sources[0], request.image_size)
  published: list[Split] = ["source"] if images.splits else []
  possible = [*published, "random", "order"]
  return _images(request, images, image_sets.FOLDER_FILENAME, possible)


_READERS: Mapping[Format, Callable[[ConversionRequest], Conversion]] = {
  "cifar": _cifar,
  "images": _image_folder,
  "leaf": _leaf,
  "mnist": _mnist,
  "plays": _plays,
  "stack_exchange": _stack_exchange,
}
_FOLDERS: tuple[Format, ...] = ("cifar", "images", "mnist")


def _images(
  request: ConversionRequest,
  images: image_sets.CentralImages,
  filename: str,
  possible: Sequence[Split],
  *,
  train: str = "train",
  test: str = "test",
) -> Conversion:
  """Plans a conversion of images; creates clients if needed or requested."""
  split = _split(request, possible)
  clients = None
  if not images.clients or request.num_clients is not None:
    clients = _clients(request, images.labels)
  return Conversion(
    request=request,
    filename=filename,
    split=split,
    total=len(images.labels),
    unit="example",
    examples=lambda on_progress: image_sets.examples_by_client(
      images, clients, keep_splits=split == "source", on_example=on_progress
    ),
    train=train,
    test=test,
    left_out=collections.Counter(images.left_out),
    classes=tuple(images.classes),
  )


def _split(request: ConversionRequest, possible: Sequence[Split]) -> Split:
  """Returns the requested split, or the first one in `possible` by default."""
  if request.split is None:
    return possible[0]
  if request.split not in possible:
    raise FieldError(
      "split",
      f"is not possible with this source; expected {' or '.join(possible)}.",
      value=request.split,
    )
  return request.split


def _clients(
  request: ConversionRequest, labels: np.ndarray
) -> dict[str, np.ndarray]:
  """Divides examples among artificial clients; returns positions by client."""
  count, seed = request.num_clients, request.seed
  if count is None:
    raise FieldError(
      "num_clients", "is missing; the source does not define clients."
    )
  try:
    match request.partition:
      case "iid":
        found = cuts.iid(len(labels), count, seed)
      case "shards":
        shards = request.shards_per_client
        found = cuts.label_shards(labels, count, shards, seed)
      case "dirichlet":
        found = cuts.dirichlet(labels, count, request.concentration, seed)
  except ValueError as error:
    raise FieldError(
      "partition", str(error), value=request.partition
    ) from error
  return dict(zip(cuts.client_names(count), found, strict=True))


def _size(paths: Sequence[pathlib.Path]) -> int:
  return sum(path.stat().st_size for path in paths)


def plan(request: ConversionRequest) -> Conversion:
  """Prepares a conversion from a request's sources, without writing."""
  _check_sources(request)
  conversion = _READERS[request.source_format](request)
  for table in conversion.tables:  # Checked before the slow conversion.
    data_files.check_free(table, overwrite=request.overwrite)
  return conversion
