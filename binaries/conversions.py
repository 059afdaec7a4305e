"""The formats that can be converted: what each reads and yields."""

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from binaries import cut_flags
from binaries.command_line import UsageError
from tasks.conversions import (
  central_images,
  cifar,
  image_folder,
  leaf_json,
  mnist,
  plays,
  stack_exchange,
  token_counts,
)
from tasks.conversions.client_data_file import Example

OnProgress = Callable[[int], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
  """What is to be written.

  Attributes:
    filename: Name of the file, by default.
    split: How train and test are told apart.
    total: How much there is to do, in the unit of progress.
    unit: "B" for bytes read, or "example".
    examples: Yields the examples; tells how much was done just now.
    train: Name of the split of training examples.
    test: Name of the split of test examples.
    heldout: Names of other splits.
    left_out: Number of parts of the source that became no example, by reason;
      complete once all examples were yielded.
    tables: The files of word and tag counts that are to be written as well.
  """

  filename: str
  split: str
  total: int
  unit: str = "B"
  examples: Callable[[OnProgress], Iterator[Example]]
  train: str = "train"
  test: str = "test"
  heldout: tuple[str, ...] = ()
  left_out: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  tables: tuple[pathlib.Path, ...] = ()


def plan(source_format: str, sources: Sequence[pathlib.Path]) -> Conversion:
  """Returns what is to be written, as the flags say.

  Raises:
    UsageError: If a flag is wrong.
    DataError: If the sources are not as they must be.
  """
  if source_format in _OF_SEVERAL:
    for path in sources:
      if not path.is_file():
        raise UsageError(f"--source={path}: expected a file.")
    return _OF_SEVERAL[source_format](sources)
  if len(sources) > 1:
    raise UsageError(
      f"--source={sources[1]}: --convert={source_format} takes one source."
    )
  if source_format != "leaf" and not sources[0].is_dir():
    raise UsageError(f"--source={sources[0]}: expected a folder.")
  return _OF_ONE[source_format](sources[0])


def _stack_exchange(sources: Sequence[pathlib.Path]) -> Conversion:
  split = cut_flags.split(["date", "random", "order"])
  post_split = cut_flags.post_split(split)
  posts = stack_exchange.StackExchangePosts(sources, post_split)
  return Conversion(
    filename=stack_exchange.FILENAME,
    split=split,
    total=2 * _size(sources),  # Each dump is read twice.
    examples=posts.examples,
    heldout=(post_split.heldout,),
    left_out=posts.left_out,
    tables=(token_counts.WORD_COUNTS, token_counts.TAG_COUNTS),
  )


def _plays(sources: Sequence[pathlib.Path]) -> Conversion:
  texts = plays.Plays(sources)
  return Conversion(
    filename=plays.FILENAME,
    split=cut_flags.split(["random", "order"]),
    total=_size(sources),
    examples=texts.examples,
    left_out=texts.left_out,
  )


def _leaf(source: pathlib.Path) -> Conversion:
  halves = leaf_json.files(source)
  possible = ["random", "order"]
  if None not in halves.values():
    possible.insert(0, "source")
  split = cut_flags.split(possible)
  users = leaf_json.LeafUsers(halves)
  return Conversion(
    filename=leaf_json.FILENAME,
    split=split,
    total=_size(list(halves)),
    examples=lambda on_progress: users.examples(
      keep_splits=split == "source", on_read=on_progress
    ),
    left_out=users.left_out,
  )


def _mnist(source: pathlib.Path) -> Conversion:
  paths = mnist.files(source)
  if cut_flags.makes_up_clients() or not mnist.has_writers(source):
    return _images(
      mnist.images(source), mnist.FILENAME, train=mnist.TRAIN, test=mnist.TEST
    )
  split = cut_flags.split(["random", "order", "source"])
  return Conversion(
    filename=mnist.FILENAME,
    split=split,
    total=_size(paths),
    examples=lambda on_progress: mnist.by_writer(
      source, keep_splits=split == "source", on_read=on_progress
    ),
    train=mnist.TRAIN,
    test=mnist.TEST,
  )


def _cifar(source: pathlib.Path) -> Conversion:
  return _images(cifar.images(source), cifar.filename(source))


def _image_folder(source: pathlib.Path) -> Conversion:
  return _images(
    image_folder.images(source, cut_flags.image_size()), image_folder.FILENAME
  )


def _images(
  images: central_images.CentralImages,
  filename: str,
  *,
  train: str = "train",
  test: str = "test",
) -> Conversion:
  possible = ["source"] if images.splits else []
  split = cut_flags.split([*possible, "random", "order"])
  clients = cut_flags.clients(images.labels)
  return Conversion(
    filename=filename,
    split=split,
    total=len(images.labels),
    unit="example",
    examples=lambda on_progress: central_images.deal(
      images, clients, keep_splits=split == "source", on_example=on_progress
    ),
    train=train,
    test=test,
  )


def _size(paths: Sequence[pathlib.Path]) -> int:
  return sum(path.stat().st_size for path in paths)


_OF_SEVERAL: Mapping[str, Callable[[Sequence[pathlib.Path]], Conversion]] = {
  "plays": _plays,
  "stack_exchange": _stack_exchange,
}
_OF_ONE: Mapping[str, Callable[[pathlib.Path], Conversion]] = {
  "cifar": _cifar,
  "images": _image_folder,
  "leaf": _leaf,
  "mnist": _mnist,
}
