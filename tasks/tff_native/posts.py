"""Stack Overflow's posts by user, for the tasks on words and on tags.

TFF's native data set (The TensorFlow Federated Authors, 2019): one example is a
sentence with its post's title and tags; 342,477 users have training examples.

Word and tag counts are those of `load_word_counts` and `load_tag_counts` of
`tff.simulation.datasets.stackoverflow`, in the files that these functions
unpack: a line "word count" per word in descending order, and a JSON object from
tags to counts. You can replace a file by counts of other data in the same
format; a missing file is downloaded.
"""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from tasks import cuts, downloads, options
from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import source_files
from tasks.task import Task, count_examples
from tasks.tff_native import native_clients
from tff_fair import declared
from tff_fair.files import parsing


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackOverflowOptions(options.ClientOptions):
  """Options of both tasks on Stack Overflow."""

  min_examples: int = declared.positive_integer(
    1,
    "Minimum number of training examples per user; users with fewer are left "
    "out.",
  )
  max_examples: int | None = declared.positive_integer(
    None,
    "Maximum number of examples per user, for training and for testing each; "
    "the first ones are used. None means all.",
  )
  test_fraction: float | None = declared.value(
    None,
    "The share of a user's training examples, or of the first `max_examples` "
    "of them, that is used for testing instead, chosen at random. None means "
    "the test examples of the data, those of 2018 and later.",
    **declared.BETWEEN_0_AND_1,
  )
  vocab_size: int = declared.positive_integer(
    10_000, "Size of the vocabulary: the most frequent words."
  )
  synthetic: bool = declared.value(
    False,
    "Whether to use the three artificial users that TFF has for tests, which "
    "need no file.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(
      "max_examples",
      self.max_examples != 1 or self.test_fraction is None,
      "2 or more if test_fraction is given",
    )


def build_task(
  config: StackOverflowOptions,
  features: Sequence[str],
  to_arrays: native_clients.ToArrays,
  *,
  data_dir: pathlib.Path | None,
  seed: int,
  what: str,
  **parts: Any,
) -> Task:
  """Builds a task from the users, without reading their examples."""
  least = _least(config)
  data = native_clients.find(
    "stackoverflow",
    data_dir,
    [*least],
    {feature: ([], "string") for feature in features},
    synthetic=config.synthetic,
  )
  chosen, users = data.choose(
    [*least.values()],
    config.num_clients,
    seed,
    who="users",
    without=_requirement_text(config),
  )
  halves = chosen.halves(to_arrays, limit=config.max_examples)
  if config.test_fraction is not None:
    halves[:] = cuts.local_split(halves[0], config.test_fraction, seed)
  train, test = halves
  title = "synthetic test posts" if config.synthetic else "Stack Overflow"
  counts = count_examples(train, test, unit="sentences")
  return Task(
    description=f"{title}: {users}, {counts}, {what}",
    client_names=chosen.names,
    train=train,
    test=test,
    **parts,
  )


def _least(config: StackOverflowOptions) -> dict[str, int]:
  """Returns the minimum number of a user's examples in each split."""
  if config.test_fraction is not None:
    return {"train": max(config.min_examples, 2)}
  return {"train": config.min_examples, "test": 1}


def _requirement_text(config: StackOverflowOptions) -> str:
  least = _least(config)
  if "test" not in least:
    return f"at least {least['train']:,} train sentences"
  if least["train"] == 1:
    return "train and test sentences"
  return f"at least {least['train']:,} train and any test sentences"


# The functions below read the most frequent words and tags.

_DIRECTORY = "datasets"  # Keras' folder within the cache directory.


def known_words(
  config: StackOverflowOptions, data_dir: pathlib.Path | None
) -> list[bytes]:
  """Returns the `vocab_size` most frequent words, in descending order."""
  import tensorflow_federated as tff  # noqa: PLC0415

  native, size = tff.simulation.datasets.stackoverflow, config.vocab_size
  if config.synthetic:
    return _first(native.get_synthetic_word_counts(), size)
  path = _find("stackoverflow.word_count", data_dir)
  source_files.note(path)
  words: dict[bytes, int] = {}
  with reporting_unreadable(path), path.open("rb") as file:
    for line_number, line in enumerate(itertools.islice(file, size), 1):
      place = f"{path}, line {line_number}"
      word = _word(line, place)
      if word in words:
        raise DataError(place, f"{word!r} is in line {words[word]} too.")
      words[word] = line_number
  if not words:
    raise DataError(path, "has no words, expected lines of word and count.")
  return list(words)


def known_tags(
  config: StackOverflowOptions, num_tags: int, data_dir: pathlib.Path | None
) -> list[bytes]:
  """Returns the `num_tags` most frequent tags, in descending order."""
  import tensorflow_federated as tff  # noqa: PLC0415

  native = tff.simulation.datasets.stackoverflow
  if config.synthetic:
    return _first(native.get_synthetic_tag_counts(), num_tags)
  path = _find("stackoverflow.tag_count", data_dir)
  source_files.note(path)
  try:
    with reporting_unreadable(path):
      counts = parsing.parse_json(path.read_bytes())
  except parsing.ParseError as error:
    raise DataError(path, f"is not JSON: {error}.") from error
  if not counts or not isinstance(counts, dict):
    raise DataError(path, "expected an object from tags to counts.")
  wrong = [tag for tag, n in counts.items() if not isinstance(n, int)]
  if wrong:
    raise DataError(
      path,
      f"the count of {wrong[0]!r} must be an integer, found "
      f"{counts[wrong[0]]!r}.",
    )
  # Stable, as in TFF: tags with equal counts stay in the file's order.
  return _first(sorted(counts, key=lambda tag: -counts[tag]), num_tags)


def _first(names: Iterable[str], size: int) -> list[bytes]:
  return [name.encode() for name in itertools.islice(names, size)]


def _word(line: bytes, place: str) -> bytes:
  fields = line.split()
  if len(fields) != 2 or not fields[1].isdigit():
    raise DataError(
      place, f"expected a word and its count, found {line[:80]!r}."
    )
  try:
    line.decode()  # TFF reads text, so other bytes are an error.
  except UnicodeDecodeError as error:
    raise DataError(place, f"is not UTF-8: {error}.") from error
  return fields[0]


def _find(filename: str, data_dir: pathlib.Path | None) -> pathlib.Path:
  directory = data_dir or pathlib.Path.home() / ".keras"
  unpacked = directory / _DIRECTORY / filename
  for path in (directory / filename, unpacked):
    if os.path.lexists(path):
      return path
  downloads.fetch_missing(
    unpacked, "stackoverflow", cached_in=f"~/.keras/{_DIRECTORY}"
  )
  return unpacked
