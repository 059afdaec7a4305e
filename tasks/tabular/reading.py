"""Reads the columns of a table."""

import os
import pathlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tasks import notices
from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.tabular import columns, csv_file, parquet_file, text_columns
from tff_fair import spelling

_MOST_NAMES_SHOWN = 20
_MOST_MARKS_SHOWN = 5
# What is wrong with columns, and how to mend it, by their names.
_Faults = dict[str, str]


class Table(Protocol):
  """A file with columns, `CsvFile` or `ParquetFile`.

  Attributes:
    path: The file.
    names: The names of its columns.
    signs: How it writes numbers that are texts.
  """

  path: pathlib.Path
  names: Sequence[str]
  signs: text_columns.Signs

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
    raise DataError("file", "is missing; name a file, such as patients.csv.")
  path = (data_dir or pathlib.Path()) / os.path.expanduser(file)
  # Those of os.path say no of names that no file system takes.
  if os.path.isdir(path):
    raise DataError(path, "is a folder, expected a file.")
  if not os.path.exists(path):
    raise DataError(path, "there is no such file.")
  return path


def opened(
  path: pathlib.Path, written: csv_file.Format = csv_file.UNKNOWN
) -> Table:
  """Opens a table; the content tells CSV from Parquet.

  Args:
    path: The file.
    written: How it is written, if it is CSV.

  Raises:
    DataError: If the file cannot be read, has no rows, two columns have one
      name, or options of CSV files are given for another one.
  """
  with data_files.opened(path) as file:
    magic = file.read(len(parquet_file.MAGIC))
  table: Table
  if magic == parquet_file.MAGIC:
    if written != csv_file.UNKNOWN:
      raise DataError(
        path,
        "is a Parquet file, which says itself how its values are written; "
        "separator, decimal, thousands, encoding and missing are for CSV "
        "files.",
      )
    table = parquet_file.ParquetFile(path)
  else:
    table = csv_file.CsvFile(path, written)
  twice = [k for k, n in Counter(filter(None, table.names)).items() if n > 1]
  if twice:
    raise DataError(path, f"has more than one column {twice[0]!r}.")
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
      table.path,
      f"there is no column {', '.join(missing)}.{advice} It has "
      f"{_shown(known)}.",
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
  measured: Collection[str] = (),
  units: Collection[str] = (),
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
    measured: Those of them whose texts, if they have some, are no numbers that
      are written in another way.
    units: Those of `texts` that are numbers, with a unit or without.

  Returns:
    Columns by name. One of numbers has nothing but numbers and missing values.

  Raises:
    DataError: If a field cannot be read or is missing, or a column that is to
      have categories has other texts; it names all such columns, and a row of
      each.
  """
  gathered: dict[str, columns.Gatherer] = {}
  faults: _Faults = {}

  def check(name: str) -> None:
    """Notes what is wrong with the texts of a column so far."""
    texts_so_far = gathered.get(name)
    if isinstance(texts_so_far, columns.TextGatherer):
      _check_texts(
        table, name, texts_so_far, name in categories, name in measured, faults
      )

  mixed = _gather(table, names, texts, exact, gathered, faults, check)
  if mixed:
    # Once more, because numbers are no longer as they were written.
    _gather(table, mixed, mixed, exact, gathered, faults, check)
  for name in names:
    check(name)
  found = {n: gathered.pop(n).column() for n in names if n not in faults}
  for name in units:
    if name in found:
      found[name] = _without_units(
        table, name, found[name], is_exact=name in exact, faults=faults
      )
  for name in complete:
    if name in found:
      _check_complete(table, name, found[name], faults)
  if faults:
    told = " ".join(faults[name] for name in names if name in faults)
    raise DataError(table.path, f"{told[0].lower()}{told[1:]}")
  return found


def _gather(
  table: Table,
  names: Sequence[str],
  texts: Collection[str],
  exact: Collection[str],
  gathered: dict[str, columns.Gatherer],
  faults: _Faults,
  check: Callable[[str], None],
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
        if len(found.values) > text_columns.MOST:
          check(name)
          if name in faults:
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


def _check_texts(
  table: Table,
  name: str,
  found: columns.TextGatherer,
  are_categories: bool,
  are_measured: bool,
  faults: _Faults,
) -> None:
  """Notes why texts are numbers, written in another way, or too many."""
  refusal = None
  present = [text for text in found.values if text not in csv_file.NO_NUMBER]
  if are_measured:
    refusal = text_columns.refused_number(
      present,
      table.signs,
      text_columns.quoted(name),
      are_final=not isinstance(table, csv_file.CsvFile),
    )
  if are_categories and refusal is None:
    refusal = text_columns.refusal(present, found.num_texts)
  if refusal is None:
    return
  place = table.place(found.first_row(refusal.example))
  remedy = f"{refusal.remedy[0].upper()}{refusal.remedy[1:]}"
  if are_categories:
    remedy = f"{text_columns.leave_out(name)}, or {refusal.remedy}"
  faults[name] = (
    f"Column {name!r} {refusal.problem}, such as {refusal.example[:60]!r} in "
    f"{place}. {remedy}."
  )


def _without_units(
  table: Table,
  name: str,
  column: columns.Column,
  *,
  is_exact: bool,
  faults: _Faults,
) -> columns.Column:
  """Returns a column of texts that are numbers, perhaps with a unit.

  `faults` gets the first text that is no number, or of another unit.
  """
  assert isinstance(column, columns.Texts)  # It was read as such.
  values, fault = text_columns.numbers_of(
    column.values, table.signs, csv_file.NO_NUMBER
  )
  if fault is not None:
    text, problem = fault
    row = int(np.argmax(column.codes == column.values.index(text)))
    faults[name] = (
      f"Column {name!r}, {table.place(row)}: {text[:60]!r} {problem}. Correct "
      f"it, or name it in missing={text_columns.quoted(f'{name}={text}')}."
    )
    return column
  # The missing text has the code -1.
  numbers = np.append(values, np.nan)[column.codes]
  _is_finite(table, name, numbers, 0, faults)
  gatherer = columns.NumberGatherer(is_exact=is_exact)
  gatherer.add(numbers)
  return gatherer.column()


def tell(
  table: Table,
  found: Mapping[str, columns.Column],
  *,
  measured: Collection[str],
) -> None:
  """Warns of cells that keep a column from being one of numbers, and of marks.

  A Parquet file says itself which columns hold numbers.

  Args:
    table: The file.
    found: Columns of it, by name.
    measured: Those of them whose texts may be meant as numbers.
  """
  if not isinstance(table, csv_file.CsvFile):
    return
  for name in measured:
    column = found[name]
    if isinstance(column, columns.Texts):
      _tell_strays(table, name, column)
  incomplete = [
    name
    for name, column in found.items()
    if isinstance(column, columns.Numbers) and np.isnan(column.values).any()
  ]
  marks = table.marks(incomplete) if incomplete else {}
  shown = [
    f"{counts.total():,} of column {name!r} ({', '.join(sorted(counts))})"
    for name, counts in marks.items()
  ]
  if shown:
    more = [f"{len(shown) - _MOST_MARKS_SHOWN:,} more columns"]
    notices.notify(
      f"{table.path}: cells that are taken as missing numbers: "
      + ", ".join(
        [*shown[:_MOST_MARKS_SHOWN], *more]
        if len(shown) > _MOST_MARKS_SHOWN
        else shown
      )
      + ". Name these texts in missing=... if that is right."
    )


def _tell_strays(
  table: csv_file.CsvFile, name: str, column: columns.Texts
) -> None:
  values = column.values
  rows = np.bincount(column.codes + 1, minlength=len(values) + 1)[1:].tolist()
  counts = dict(zip(values, rows, strict=True))
  strays = text_columns.strays(counts, csv_file.NO_NUMBER)
  if strays:
    codes = [k for k, value in enumerate(values) if value in strays]
    is_stray = np.isin(column.codes, codes)
    row = int(is_stray.argmax())
    notices.notify(
      f"{table.path}: column {name!r}: {is_stray.sum():,} of "
      f"{len(is_stray):,} cells are no numbers, such as "
      f"{values[column.codes[row]][:60]!r} in {table.place(row)}, so all are "
      "taken for texts. For a column of numbers correct these, name them in "
      "missing=..., or leave them empty."
    )
