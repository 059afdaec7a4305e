"""Counts words and tags, as TFF's `load_word_counts` and `load_tag_counts`.

A count is the number of clients that have the word, or the tag, in a training
example. The files are as those that TFF unpacks from its downloads, and in
the same place, `datasets` in its cache directory. TFF's functions themselves
read none but the published ones: they compare the checksum of the archive.
"""

import contextlib
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator

from tasks.data_error import DataError
from tasks.formats import data_files, example_proto

WORD_COUNTS = pathlib.Path("datasets/stackoverflow.word_count")
TAG_COUNTS = pathlib.Path("datasets/stackoverflow.tag_count")

_SPLIT = "train"


def write(
  data: pathlib.Path, *, directory: pathlib.Path, overwrite: bool = False
) -> None:
  """Writes the counts of a file in the format of TFF's `stackoverflow`.

  Args:
    data: The SQLite file.
    directory: Directory under which `WORD_COUNTS` and `TAG_COUNTS` are written.
    overwrite: Whether files that are there may be replaced.

  Raises:
    DataError: If a file exists or cannot be written, or the data is unusable.
  """
  with contextlib.closing(sqlite3.connect("")) as connection:
    connection.execute(
      "CREATE TABLE counts (kind TEXT, token TEXT, count INTEGER,"
      " PRIMARY KEY (kind, token)) WITHOUT ROWID"
    )
    try:
      _count(connection, data)
    except (sqlite3.Error, ValueError, KeyError, IndexError) as error:
      raise DataError(
        data, f"is no data of stackoverflow: {error!r}."
      ) from error
    for path, kind, write_to in (
      (WORD_COUNTS, "tokens", _write_words),
      (TAG_COUNTS, "tags", _write_tags),
    ):
      _write(directory / path, connection, kind, write_to, overwrite=overwrite)


def _count(connection: sqlite3.Connection, data: pathlib.Path) -> None:
  uri = f"{data.absolute().as_uri()}?mode=ro&immutable=1"
  separators = {"tokens": b" ", "tags": b"|"}
  with contextlib.closing(sqlite3.connect(uri, uri=True)) as source:
    for (client,) in source.execute(
      "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ?",
      [_SPLIT],
    ):
      found: set[tuple[str, str]] = set()
      for (serialized,) in source.execute(
        "SELECT serialized_example_proto FROM examples "
        "WHERE split_name = ? AND client_id = ?",
        [_SPLIT, client],
      ):
        features = example_proto.parse(serialized)
        for kind, separator in separators.items():
          (text,) = features[kind]
          found.update(
            (kind, bytes(token).decode())
            for token in text.split(separator)
            if token
          )
      connection.executemany(
        "INSERT INTO counts VALUES (?, ?, 1) "
        "ON CONFLICT DO UPDATE SET count = count + 1",
        found,
      )


def _write(
  path: pathlib.Path,
  connection: sqlite3.Connection,
  kind: str,
  lines: Callable[[Iterable[tuple[str, int]]], Iterator[str]],
  *,
  overwrite: bool,
) -> None:
  counts = connection.execute(
    "SELECT token, count FROM counts WHERE kind = ? ORDER BY count DESC, token",
    [kind],
  )
  with (
    data_files.replacement(path, overwrite=overwrite) as staged,
    staged.open("w", encoding="utf-8") as file,
  ):
    file.writelines(lines(counts))


def _write_words(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
  for word, count in counts:
    yield f"{word} {count}\n"


def _write_tags(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
  yield json.dumps(dict(counts))
