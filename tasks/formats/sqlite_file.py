"""Checks and reads the SQLite files of TFF's native data sets.

The format is that of `tff.simulation.datasets`: a table `examples` (split_name,
client_id, serialized_example_proto) and a table `client_metadata` (client_id,
split_name, num_examples). Files are opened read-only and never changed.
"""

import array
import contextlib
import pathlib
import sqlite3
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import client_names, source_files

_COLUMNS = {
  "examples": {"split_name", "client_id", "serialized_example_proto"},
  "client_metadata": {"split_name", "client_id", "num_examples"},
}
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


def population(
  path: pathlib.Path, splits: Sequence[str], *, advice: str = ""
) -> tuple[client_names.ClientNames, np.ndarray]:
  """Returns all clients' names, ascending, and their numbers of examples.

  The numbers, int64[clients, splits], come from the table of metadata; examples
  are not read.
  """
  counts = array.array("q")
  columns = ", ".join(
    "CAST(TOTAL(CASE split_name WHEN ? THEN num_examples END) AS INTEGER)"
    for _ in splits
  )
  places = ", ".join("?" for _ in splits)
  query = (
    f"SELECT client_id, {columns} FROM client_metadata "
    f"WHERE split_name IN ({places}) GROUP BY client_id ORDER BY client_id"
  )

  def rows(connection: sqlite3.Connection) -> Iterator[str]:
    for name, *client_counts in connection.execute(query, [*splits, *splits]):
      counts.extend(client_counts)
      yield str(name)

  with connect(path) as connection:
    _check_splits(path, connection, splits, advice)
    names = client_names.ClientNames(rows(connection))
  return names, np.array(counts, np.int64).reshape(len(names), len(splits))


def serialized_examples(
  path: pathlib.Path, split: str, client: str, *, limit: int | None = None
) -> list[bytes]:
  """Returns a client's serialized examples, in the file's order."""
  query = (
    "SELECT serialized_example_proto FROM examples "
    "WHERE split_name = ? AND client_id = ? LIMIT ?"
  )
  # To SQLite, a negative limit means no limit.
  values = [split, client, -1 if limit is None else limit]
  with connect(path) as connection:
    # Returns bytes, even for an example that is stored as text.
    connection.text_factory = bytes
    return [example for (example,) in connection.execute(query, values)]


def check_pages(path: pathlib.Path) -> None:
  """Reads a whole file; raises a `DataError` if pages or counts are damaged."""
  with connect(path) as connection:
    ((found,),) = connection.execute("PRAGMA quick_check(1)")
    if found != "ok":
      raise DataError(
        path,
        f"is damaged: SQLite says: {' '.join(str(found).split())}. Copy or "
        "download it again.",
      )
    counts = (
      dict(connection.execute(f"{query} GROUP BY split_name"))
      for query in (
        "SELECT split_name, CAST(TOTAL(num_examples) AS INTEGER) "
        "FROM client_metadata",
        "SELECT split_name, COUNT(*) FROM examples",
      )
    )
    expected, actual = counts
  for split, count in expected.items():
    if actual.get(split, 0) != count:
      raise DataError(
        path,
        f"is damaged: split {split} has {actual.get(split, 0):,} examples, "
        f"its table client_metadata says {count:,}. Copy or download it again.",
      )


def split_names(connection: sqlite3.Connection) -> list[str]:
  """Returns the splits that have clients, in alphabetical order."""
  found = connection.execute("SELECT DISTINCT split_name FROM client_metadata")
  # In a damaged file, names may be of any type.
  return sorted(str(split) for (split,) in found)


def _check_splits(
  path: pathlib.Path,
  connection: sqlite3.Connection,
  splits: Sequence[str],
  advice: str,
) -> None:
  found = split_names(connection)
  missing = sorted(set(splits).difference(found))
  if missing:
    raise DataError(
      path,
      f"table client_metadata has no split {', '.join(missing)}; found "
      f"{', '.join(found) or 'none'}. {advice}".rstrip(),
    )


def check(path: pathlib.Path) -> None:
  """Checks that a file is not truncated, and has the tables of TFF's data."""
  with reporting_unreadable(path):
    problem = header_problem(path)
  if problem:
    raise DataError(
      path, f"{problem}. Move it away, then copy or download it again."
    )
  with connect(path) as connection:
    for table, expected in _COLUMNS.items():
      columns = {
        row[1] for row in connection.execute(f"PRAGMA table_info({table})")
      }
      if not columns:
        tables = connection.execute(
          "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        )
        raise DataError(
          path,
          f"has no table {table}; found "
          f"{', '.join(name for (name,) in tables) or 'none'}. It is not a "
          "data set of tff.simulation.datasets.",
        )
      if expected - columns:
        raise DataError(
          path,
          f"table {table} lacks the column "
          f"{', '.join(sorted(expected - columns))}; found "
          f"{', '.join(sorted(columns))}.",
        )


def header_problem(path: pathlib.Path) -> str | None:
  """Returns what is wrong with a file's header or size; None if nothing is.

  See sqlite.org/fileformat.html.
  """
  size = path.stat().st_size
  with path.open("rb") as file:
    header = file.read(_HEADER_BYTES)
  if not header.startswith(_MAGIC[: len(header)]):
    return f"it is not a SQLite database, it starts with {header[:16]!r}"
  expected = _HEADER_BYTES
  if len(header) == _HEADER_BYTES:
    (page_size,) = struct.unpack_from(">H", header, 16)
    change_counter, page_count = struct.unpack_from(">II", header, 24)
    (version_valid_for,) = struct.unpack_from(">I", header, 92)
    # Old versions of SQLite leave wrong page counts; then these numbers differ.
    if change_counter == version_valid_for:
      expected = page_count * (65536 if page_size == 1 else page_size)
  if size < expected:
    return f"it is truncated to {size:,} bytes of at least {expected:,}"
  return None


@contextlib.contextmanager
def connect(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
  """Opens a file for reading; errors in the context become `DataError`s."""
  source_files.note(path)
  # With immutable=1, SQLite creates no lock, journal or memory file.
  uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      yield connection
  except sqlite3.Error as error:
    raise DataError(
      path, f"is damaged: SQLite says: {' '.join(str(error).split())}."
    ) from error
  except UnicodeDecodeError as error:
    # SQLite quotes the file's content in an error that Python cannot decode.
    raise DataError(
      path, "is damaged: its tables or columns have names that are not text."
    ) from error
