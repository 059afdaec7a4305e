"""Finds, fetches and checks the SQLite files of TFF's native data sets.

The format is that of `tff.simulation.datasets`: a table `examples` (split_name,
client_id, serialized_example_proto) and a table `client_metadata` (client_id,
split_name, num_examples). Files are opened read-only and never changed.
"""

import contextlib
import os
import pathlib
import sqlite3
import struct
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator

from tasks.task import DataError

_COLUMNS = {
  "examples": {"split_name", "client_id", "serialized_example_proto"},
  "client_metadata": {"split_name", "client_id", "num_examples"},
}
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
# A download that brings nothing for so long (seconds) is given up.
_STALL_TIMEOUT = 30.0


def find(
  filename: str,
  data_dir: pathlib.Path | None,
  fetch: Callable[[str], object],
) -> pathlib.Path:
  """Returns the path of a whole file in the format of TFF's data sets.

  Args:
    filename: Name under which TFF caches the data set.
    data_dir: Directory of the file. None means TFF's own cache, ~/.tff.
    fetch: TFF's loader: downloads the file into the directory it is given.
      Called only if there is no file; gives up when nothing arrives any more.

  Returns:
    Path of a file whose header and tables are as they must be.

  Raises:
    DataError: If there is no file and none can be fetched, or if the file is
      truncated, is no SQLite database or has other tables.
  """
  directory = data_dir or pathlib.Path.home() / ".tff"
  path = directory / filename
  if not os.path.lexists(path):
    _download(path, fetch)
  _check(path)
  return path


def example_counts(
  path: pathlib.Path, splits: Collection[str], *, advice: str = ""
) -> list[dict[str, int]]:
  """Returns the number of examples of each client, for each split.

  Args:
    path: A file that `find` returned.
    splits: Names of the splits.
    advice: What to do if the file lacks a split; ends the error message.

  Returns:
    One mapping from client to number of examples per split. It comes from
    `client_metadata`: no example is read.

  Raises:
    DataError: If the file lacks one of the splits or cannot be read.
  """
  with _connect(path) as connection:
    found = {
      split
      for (split,) in connection.execute(
        "SELECT DISTINCT split_name FROM client_metadata"
      )
    }
    missing = sorted(set(splits) - found)
    if missing:
      raise DataError(
        f"{path}: table client_metadata has no split {', '.join(missing)}; "
        f"found {', '.join(sorted(found)) or 'none'}. {advice}".rstrip()
      )
    return [
      dict(
        connection.execute(
          "SELECT client_id, CAST(TOTAL(num_examples) AS INTEGER) "
          "FROM client_metadata WHERE split_name = ? GROUP BY client_id",
          [split],
        )
      )
      for split in splits
    ]


def _check(path: pathlib.Path) -> None:
  try:
    problem = _header_problem(path)
  except OSError as error:
    raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
  if problem:
    raise DataError(
      f"{path}: {problem}. Move it away, then copy or download it again."
    )
  with _connect(path) as connection:
    for table, expected in _COLUMNS.items():
      columns = {
        row[1] for row in connection.execute(f"PRAGMA table_info({table})")
      }
      if not columns:
        tables = connection.execute(
          "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        )
        raise DataError(
          f"{path}: has no table {table}; found "
          f"{', '.join(name for (name,) in tables) or 'none'}. "
          "It is not a data set of tff.simulation.datasets."
        )
      if expected - columns:
        raise DataError(
          f"{path}: table {table} lacks the column "
          f"{', '.join(sorted(expected - columns))}; "
          f"found {', '.join(sorted(columns))}."
        )


def _header_problem(path: pathlib.Path) -> str | None:
  """Compares a file with its header (https://sqlite.org/fileformat.html)."""
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
    # Old versions of SQLite leave a wrong page count; the counters tell.
    if change_counter == version_valid_for:
      expected = page_count * (65536 if page_size == 1 else page_size)
  if size < expected:
    return f"it is truncated, {size:,} bytes of at least {expected:,} are there"
  return None


@contextlib.contextmanager
def _connect(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
  # Immutable: no lock, journal or shared memory file appears beside the data.
  uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      yield connection
  except sqlite3.Error as error:
    raise DataError(f"{path}: is damaged: SQLite says: {error}.") from error


def _download(path: pathlib.Path, fetch: Callable[[str], object]) -> None:
  """Fetches a file into a directory of its own, then moves it to its place.

  TFF's loader writes to the final name as the data arrives: interrupted, it
  would leave a truncated file that the next run takes for the whole one.
  """
  directory = path.parent
  created = not directory.exists()
  try:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
      prefix=".download-", dir=directory, ignore_cleanup_errors=True
    ) as staging:
      _fetch_or_give_up(fetch, pathlib.Path(staging))
      arrived = pathlib.Path(staging) / path.name
      if problem := _header_problem(arrived):
        raise OSError(problem)
      arrived.rename(path)
  except Exception as error:  # Sockets, LZMA, SQLite, a full disk, a proxy …
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    raise DataError(
      f"{path}: there is no such file, and it could not be downloaded "
      f"({reason}). On a machine with network access TFF downloads it as "
      f"~/.tff/{path.name}: copy it from there to {directory}, or name the "
      "directory that has it as data_dir (--data_dir)."
    ) from error
  finally:
    if created:
      with contextlib.suppress(OSError):
        directory.rmdir()  # Fails, as it should, once the file is there.


def _fetch_or_give_up(
  fetch: Callable[[str], object], staging: pathlib.Path
) -> None:
  # TFF's loader waits for the network without limit. The thread is a daemon so
  # that one that hangs does not keep the program from ending.
  failures: list[Exception] = []

  def run() -> None:
    try:
      fetch(str(staging))
    except Exception as error:
      failures.append(error)

  thread = threading.Thread(target=run, daemon=True)
  thread.start()
  while thread.is_alive():
    before = _total_size(staging)
    thread.join(_STALL_TIMEOUT)
    if thread.is_alive() and _total_size(staging) == before:
      raise TimeoutError(f"nothing arrived for {_STALL_TIMEOUT:g} seconds")
  if failures:
    raise failures[0]


def _total_size(directory: pathlib.Path) -> int:
  return sum(file.stat().st_size for file in directory.iterdir())
