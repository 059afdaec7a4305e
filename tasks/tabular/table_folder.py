"""A table in several files: a file for each client, or a partitioned folder.

Files are CSV or Parquet. A folder named hospital=north, as in partitions from
pandas and Spark, gives its rows the column hospital. In other folders, a file's
name is the client of its rows, unless the files have a column of clients.
"""

import glob
import pathlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tasks import notices
from tasks.data_error import DataError
from tasks.formats import file_kinds
from tasks.tabular import columns, text_columns
from tff_fair import spelling

_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq")


class Table(Protocol):
  """One file with columns (`CsvFile`, `ParquetFile`), or several files."""

  path: pathlib.Path  # The file, the folder or the pattern.
  names: Sequence[str]  # The names of the table's columns.
  signs: text_columns.Signs  # How numbers in texts are written.

  def place(self, row: int) -> str:
    """Describes where a row is, for messages."""

  def read_chunks(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Chunk]:
    """Yields chunks of the columns `names`; columns in `texts` are texts."""

  def find_text_columns(self, names: Sequence[str]) -> Collection[str]:
    """Returns which of `names` have texts in the first rows."""

  def count_missing_texts(
    self, names: Sequence[str]
  ) -> Mapping[str, Counter[str]]:
    """Counts, by column, texts such as NA that are read as missing numbers."""


def find_files(path: pathlib.Path) -> list[pathlib.Path] | None:
  """Returns the tables in a folder or matching a pattern; None for one file."""
  if path.is_dir():
    below = [
      file
      for file in sorted(path.rglob("*"))
      if file.is_file()
      and not any(
        part.startswith((".", "_")) for part in file.relative_to(path).parts
      )
      # Subfolders are included only if they are partitions.
      and all("=" in part for part in file.relative_to(path).parts[:-1])
    ]
    found = [
      file
      for file in below
      if file_kinds.strip_compression_suffix(file.name).suffix.lower()
      in _ENDINGS
    ]
    notices.notify_left_out(path, {*below} - {*found}, _ENDINGS)
    expected = f"a folder with files {', '.join(_ENDINGS)}"
  elif glob.has_magic(str(path)) and not path.exists():
    matches = sorted(map(pathlib.Path, glob.glob(str(path))))
    found = [file for file in matches if file.is_file()]
    expected = "a pattern of files"
  else:
    return None
  if not found:
    raise DataError(path, f"there is no table; expected {expected}.")
  return found


def _client(name: str) -> str:
  """Returns a file's name without its endings, such as .csv.gz."""
  path = file_kinds.strip_compression_suffix(name)
  return path.stem if path.suffix.lower() in _ENDINGS else path.name


class FolderTable:
  """A table whose rows are in several files, one after the other."""

  def __init__(
    self,
    path: pathlib.Path,
    files: Sequence[pathlib.Path],
    client: str,
    open_file: Callable[[pathlib.Path], Table],
  ) -> None:
    """Opens the files; the column `client` may be absent from them."""
    self.path = path  # The folder or the pattern.
    self._files = [open_file(file) for file in files]
    first = self._files[0]
    self.signs = first.signs  # How the first file writes numbers.
    known = [name for name in first.names if name]
    for other in self._files[1:]:
      if differing := {*known} ^ {*filter(None, other.names)}:
        name = min(differing)
        has, lacks = (first, other) if name in known else (other, first)
        raise DataError(
          path,
          f"{has.path.name} has the column {name!r}, but {lacks.path.name} "
          "does not; write the same columns into all files.",
        )
    partitions = [_partitions(file, path) for file in files]
    self._constant: dict[str, list[str]] = {
      name: [found.get(name, "") for found in partitions]
      for name in dict.fromkeys(n for found in partitions for n in found)
    }
    if client not in known and client not in self._constant:
      self._constant[client] = self._names_of_files(client, known)
    # The columns in the files, then columns from names of folders or files.
    self.names: Sequence[str] = [
      *[name for name in known if name not in self._constant],
      *self._constant,
    ]
    self._sizes: list[int] = []  # The numbers of rows of the files read so far.

  def _names_of_files(self, client: str, known: Sequence[str]) -> list[str]:
    """Returns the files' names as clients, and notifies the user."""
    if asked := spelling.suggest(client, known, shown=repr):
      raise DataError(
        self.path, f"its files have no column {client!r} (client; {asked})."
      )
    names = [_client(table.path.name) for table in self._files]
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
      raise DataError(
        self.path,
        f"two files would name the client {twice[0]!r}; rename one, or name "
        "the column of clients in client=...",
      )
    notices.notify(
      f"{self.path}: {len(names):,} files without a column {client!r}: each "
      f"file is a client, with the file's name, such as {names[0]!r}."
    )
    return names

  @property
  def num_comments(self) -> int:
    """The number of skipped comment lines."""
    return sum(getattr(table, "num_comments", 0) for table in self._files)

  def place(self, row: int) -> str:
    """Describes where a row is, and in which file, for messages."""
    ends = np.cumsum(self._sizes, dtype=np.int64)
    # Only files read so far have sizes; later rows are in the file being read.
    place = int(np.searchsorted(ends, row, side="right"))
    if place:
      row -= int(ends[place - 1])
    table = self._files[place]
    return f"{table.path.name}, {table.place(row)}"

  def header_advice(self) -> str:
    """Returns the first file's advice on its header, or "" if it has none."""
    return str(getattr(self._files[0], "header_advice", str)())

  def find_text_columns(self, names: Sequence[str]) -> set[str]:
    """Returns which of `names` have texts in the first rows of any file."""
    inside = [name for name in names if name not in self._constant]
    return {
      *(n for table in self._files for n in table.find_text_columns(inside)),
      *(n for n in names if n in self._constant and not self._are_numbers(n)),
    }

  def _are_numbers(self, name: str) -> bool:
    try:
      return all(map(np.isfinite, map(float, self._constant[name])))
    except ValueError:
      return False

  def read_chunks(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Chunk]:
    """Yields chunks of rows, file by file, like the files' readers."""
    inside = [name for name in names if name not in self._constant]
    self._sizes = []
    for place, table in enumerate(self._files):
      size = 0
      read = inside or [next(filter(None, table.names))]
      for num_rows, pieces in table.read_chunks(
        read, [name for name in read if name in texts or not inside]
      ):
        size += num_rows
        found = {name: pieces[name] for name in inside}
        for name in names:
          if name in self._constant:
            value = self._constant[name][place]
            found[name] = (
              (np.zeros(num_rows, np.int32), [value])
              if name in texts
              else np.full(num_rows, float(value))
            )
        yield num_rows, found
      self._sizes.append(size)

  def count_missing_texts(
    self, names: Sequence[str]
  ) -> dict[str, Counter[str]]:
    """Counts, over all files, texts such as NA read as missing numbers."""
    inside = [name for name in names if name not in self._constant]
    found: dict[str, Counter[str]] = {}
    for table in self._files:
      for name, counts in table.count_missing_texts(inside).items():
        found[name] = found.get(name, Counter()) + counts
    return found


def _partitions(file: pathlib.Path, path: pathlib.Path) -> dict[str, str]:
  """Returns the columns that the names of a file's folders define."""
  base = next(p for p in (path, *path.parents) if not glob.has_magic(str(p)))
  parts = file.relative_to(base).parts[:-1]
  return {
    name: value
    for name, found, value in (part.partition("=") for part in parts)
    if found
  }
