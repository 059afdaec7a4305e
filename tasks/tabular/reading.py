"""Reads the columns of a table."""

import os
import pathlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tasks import notices
from tasks.data_error import DataError
from tasks.formats import source_file
from tasks.tabular import columns, csv_file, parquet_file, text_checks
from tff_fair import spelling

_MOST_NAMES_SHOWN = 20
# What is wrong with columns, and how to mend it, by their names.
_Faults = dict[str, str]


class Table(Protocol):
  """A file with columns, `CsvFile` or `ParquetFile`."""

  path: pathlib.Path
  names: Sequence[str]

  def place(self, row: int) -> str:
    """Returns where the file has a row, in words."""

  def pieces(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Rows]:
    """Yields columns, some rows at a time."""


def located(file: str, data_dir: pathlib.Path | None) -> pathlib.Path:
  """Returns the place of a file that an option names.

  Args:
    file: A path; a relative one begins in `data_dir`, if that is given.
    data_dir: A folder.

  Raises:
    DataError: If no file is named, or there is none.
  """
  if not file:
    raise DataError("is missing; name a file, such as patients.csv.")
  path = (data_dir or pathlib.Path()) / os.path.expanduser(file)
  # Those of os.path say no of names that no file system takes.
  if os.path.isdir(path):
    raise DataError(f"{path}: is a folder, expected a file.")
  if not os.path.exists(path):
    raise DataError(f"{path}: there is no such file.")
  return path


def opened(
  path: pathlib.Path, written: csv_file.Format = csv_file.UNKNOWN
) -> Table:
  """Opens a table; the content tells CSV from Parquet.

  Args:
    path: The file.
    written: How it is written, if it is CSV.

  Raises:
    DataError: If the file cannot be read, has no rows, or two columns have one
      name.
  """
  with source_file.opened(path) as file:
    magic = file.read(len(parquet_file.MAGIC))
  table: Table
  if magic == parquet_file.MAGIC:
    table = parquet_file.ParquetFile(path)
  else:
    table = csv_file.CsvFile(path, written)
  twice = [k for k, n in Counter(filter(None, table.names)).items() if n > 1]
  if twice:
    raise DataError(f"{path}: has more than one column {twice[0]!r}.")
  return table


def check_names(table: Table, wanted: Mapping[str, Sequence[str]]) -> None:
  """Checks that a table has all columns that options name.

  Args:
    table: The table.
    wanted: Names of columns by option.

  Raises:
    DataError: If it lacks some; names them all.
  """
  known = [name for name in table.names if name]
  missing = []
  for option, names in wanted.items():
    for name in names:
      if name not in known:
        near = " or ".join(map(repr, spelling.guesses(name, known)))
        hint = f"; did you mean {near}?" if near else ""
        missing.append(f"{name!r} ({option}{hint})")
  if missing:
    advice = " Name the separator of the columns." if len(known) == 1 else ""
    raise DataError(
      f"{table.path}: there is no column {', '.join(missing)}.{advice} It has "
      f"{_shown(known)}."
    )


def _shown(names: Sequence[str]) -> str:
  shown = ", ".join(names[:_MOST_NAMES_SHOWN])
  return shown + (", ..." if len(names) > _MOST_NAMES_SHOWN else "")


def read(
  table: Table,
  names: Sequence[str],
  *,
  texts: Collection[str],
  categories: Collection[str],
  exact: Collection[str],
  complete: Collection[str] = (),
) -> dict[str, columns.Column]:
  """Reads columns, in one pass through the file, or in two.

  Args:
    table: The file.
    names: The columns.
    texts: Those of them that are texts, whatever they hold.
    categories: Those of them whose texts, if they have some, are categories.
    exact: Those of them whose numbers, if they have some, are float64, not
      float32.
    complete: Those of them in which nothing may be missing.

  Returns:
    Columns by name. One of numbers has nothing but numbers and missing values.

  Raises:
    DataError: If a field cannot be read or is missing, or a column that is to
      have categories has other texts; it names all such columns, and a row of
      each.
  """
  gathered: dict[str, columns.Gatherer] = {}
  faults: _Faults = {}
  mixed = _gather(table, names, texts, categories, exact, gathered, faults)
  if mixed:
    # Once more, because numbers are no longer as they were written.
    _gather(table, mixed, mixed, categories, exact, gathered, faults)
  for name in categories:
    if name not in faults:
      _check_categories(table, name, gathered[name], faults)
  found = {n: gathered.pop(n).column() for n in names if n not in faults}
  for name in complete:
    if name in found:
      _check_complete(table, name, found[name], faults)
  if faults:
    told = " ".join(faults[name] for name in names if name in faults)
    raise DataError(f"{table.path}: {told[0].lower()}{told[1:]}")
  return found


def _gather(
  table: Table,
  names: Sequence[str],
  texts: Collection[str],
  categories: Collection[str],
  exact: Collection[str],
  gathered: dict[str, columns.Gatherer],
  faults: _Faults,
) -> list[str]:
  """Gathers columns; returns those of numbers that are texts after all."""
  mixed: list[str] = []
  start = 0
  for num_rows, pieces in table.pieces(names, texts):
    for name, piece in pieces.items():
      if name in faults:
        continue
      if piece is None or name in mixed:
        mixed += [name] if name not in mixed else []
        gathered.pop(name, None)
      elif isinstance(piece, tuple):
        found = gathered.setdefault(name, columns.TextGatherer())
        assert isinstance(found, columns.TextGatherer)
        found.add(*piece)
        # At once: a million different texts would fill the memory.
        if name in categories and len(found.values) > text_checks.MOST:
          _check_categories(table, name, found, faults)
          gathered.pop(name)
      elif not _is_finite(table, name, piece, start, faults):
        gathered.pop(name, None)
      else:
        numbers = gathered.setdefault(
          name, columns.NumberGatherer(is_exact=name in exact)
        )
        assert isinstance(numbers, columns.NumberGatherer)
        numbers.add(piece)
    start += num_rows
  return mixed


def _is_finite(
  table: Table, name: str, values: np.ndarray, start: int, faults: _Faults
) -> bool:
  infinite = np.abs(values) > np.finfo(np.float32).max  # False for NaN.
  if infinite.any():
    row = int(np.argmax(infinite))
    faults[name] = (
      f"Column {name!r}, {table.place(start + row)}: {values[row]:g} is "
      "infinite, or too large for float32. Leave the field empty, or the "
      "column out."
    )
  return name not in faults


def _check_complete(
  table: Table, name: str, column: columns.Column, faults: _Faults
) -> None:
  is_missing = (
    np.isnan(column.values)
    if isinstance(column, columns.Numbers)
    else column.codes < 0
  )
  if is_missing.any():
    place = table.place(int(is_missing.argmax()))
    faults[name] = (
      f"Column {name!r}, {place}: is empty. Fill it in, or take the row out."
    )


def _check_categories(
  table: Table, name: str, found: columns.Gatherer, faults: _Faults
) -> None:
  if not isinstance(found, columns.TextGatherer):
    return
  refusal = text_checks.refusal(found.values, found.num_texts)
  if refusal is None:
    return
  place = table.place(found.first_row(refusal.example))
  faults[name] = (
    f"Column {name!r} {refusal.problem}, such as {refusal.example[:60]!r} in "
    f"{place}. {text_checks.leave_out(name)}, or {refusal.remedy}."
  )


def tell_strays(table: Table, found: Mapping[str, columns.Column]) -> None:
  """Tells of columns that would hold numbers, but for a few cells.

  A Parquet file says itself which columns hold numbers.

  Args:
    table: The file.
    found: Columns of it, by name.
  """
  if not isinstance(table, csv_file.CsvFile):
    return
  for name, column in found.items():
    if not isinstance(column, columns.Texts):
      continue
    values = column.values
    rows = np.bincount(column.codes + 1, minlength=len(values) + 1)[1:].tolist()
    counts = dict(zip(values, rows, strict=True))
    strays = text_checks.strays(counts, csv_file.NO_NUMBER)
    if strays:
      codes = [k for k, value in enumerate(values) if value in strays]
      is_stray = np.isin(column.codes, codes)
      row = int(is_stray.argmax())
      notices.notify(
        f"{table.path}: column {name!r}: {is_stray.sum():,} of "
        f"{len(is_stray):,} cells are no numbers, such as "
        f"{values[column.codes[row]][:60]!r} in {table.place(row)}, so all are "
        "taken for texts. Correct these, or leave them empty, for a column of "
        "numbers."
      )
