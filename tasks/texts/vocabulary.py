"""The most frequent words and tags of Stack Overflow.

Counts are what `tff.simulation.datasets.stackoverflow` loads with
`load_word_counts` and `load_tag_counts`, in the files that these unpack: a line
"word count" per word in descending order, and a JSON object from tags to
counts. A file that is there is read as it is, so that counts of other data in
the same format can take its place; TFF downloads one that is not there.
"""

import itertools
import os
import pathlib
from collections.abc import Callable

from tasks.data_error import DataError
from tasks.downloads import by_loader
from tasks.formats import parsing

_DIRECTORY = "datasets"  # Of Keras, within the cache directory.


def load_words(data_dir: pathlib.Path | None, size: int) -> list[bytes]:
  """Returns the most frequent words, the most frequent first.

  Args:
    data_dir: Directory of `stackoverflow.word_count`, or of a directory
      `datasets` that has it; None means the cache of Keras, ~/.keras.
    size: Number of words at most.

  Raises:
    DataError: If the file can be neither found nor fetched, or is unusable.
  """
  import tensorflow_federated as tff  # noqa: PLC0415

  path = _find(
    "stackoverflow.word_count",
    data_dir,
    tff.simulation.datasets.stackoverflow.load_word_counts,
  )
  words: dict[bytes, int] = {}
  try:
    with path.open("rb") as file:
      for line_number, line in enumerate(itertools.islice(file, size), 1):
        place = f"{path}: line {line_number}"
        word = _word(line, place)
        if word in words:
          raise DataError(f"{place}: {word!r} is in line {words[word]} too.")
        words[word] = line_number
  except OSError as error:
    raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
  if not words:
    raise DataError(f"{path}: has no words, expected lines of word and count.")
  return list(words)


def load_tags(data_dir: pathlib.Path | None, size: int) -> list[bytes]:
  """Returns the most frequent tags, the most frequent first.

  Args:
    data_dir: As in `load_words`, of `stackoverflow.tag_count`.
    size: Number of tags at most.

  Raises:
    DataError: If the file can be neither found nor fetched, or is unusable.
  """
  import tensorflow_federated as tff  # noqa: PLC0415

  path = _find(
    "stackoverflow.tag_count",
    data_dir,
    tff.simulation.datasets.stackoverflow.load_tag_counts,
  )
  try:
    counts = parsing.parse_json(path.read_bytes())
  except OSError as error:
    raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
  except parsing.ParseError as error:
    raise DataError(f"{path}: is not JSON: {error}.") from error
  if not counts or not isinstance(counts, dict):
    raise DataError(f"{path}: expected an object from tags to counts.")
  wrong = [tag for tag, n in counts.items() if not isinstance(n, int)]
  if wrong:
    raise DataError(
      f"{path}: the count of {wrong[0]!r} must be an integer, found "
      f"{counts[wrong[0]]!r}."
    )
  # Stable, as TFF has it: tags of equal counts stay in the file's order.
  ordered = sorted(counts, key=lambda tag: -counts[tag])
  return [tag.encode() for tag in ordered[:size]]


def _word(line: bytes, place: str) -> bytes:
  fields = line.split()
  if len(fields) != 2 or not fields[1].isdigit():
    raise DataError(
      f"{place}: expected a word and its count, found {line[:80]!r}."
    )
  try:
    line.decode()  # TFF reads text: other bytes are an error.
  except UnicodeDecodeError as error:
    raise DataError(f"{place}: is not UTF-8: {error}.") from error
  return fields[0]


def _find(
  filename: str,
  data_dir: pathlib.Path | None,
  load: Callable[..., object],
) -> pathlib.Path:
  directory = data_dir or pathlib.Path.home() / ".keras"
  unpacked = directory / _DIRECTORY / filename
  for path in (directory / filename, unpacked):
    if os.path.lexists(path):
      return path

  def fetch(staging: str) -> None:
    load(cache_dir=staging)
    arrived = pathlib.Path(staging, _DIRECTORY, filename)
    arrived.rename(pathlib.Path(staging, filename))

  by_loader.fetch_file(unpacked, fetch, cached_in=f"~/.keras/{_DIRECTORY}")
  return unpacked
