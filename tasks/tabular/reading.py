"""Opens users' tables, and reads their columns as numbers or texts."""

import dataclasses
import glob
import os
import pathlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tasks import notices
from tasks.data_error import DataError
from tasks.formats import data_files, file_kinds
from tasks.tabular import columns, identifiers, table_file, text_columns
from tasks.tabular.table_folder import Table
from tff_fair import declared, spelling


def locate(
  file: str, data_dir: pathlib.Path | None, *, several: bool = False
) -> pathlib.Path:
  """Returns the path that the option `file` names, in `data_dir` if relative.

  `several` also allows a folder or a pattern.
  """
  if not file:
    raise DataError("file", "is missing; name a file, such as patients.csv.")
  path = (data_dir or pathlib.Path()) / os.path.expanduser(file)
  if several and (os.path.isdir(path) or glob.has_magic(str(path))):
    return path
  # Unlike pathlib, os.path does not raise for names that no file system allows.
  if os.path.isdir(path):
    raise DataError(path, "is a folder, expected a file.")
  if not os.path.exists(path):
    raise DataError(path, "there is no such file.")
  return path


def open_table(
  path: pathlib.Path, written: table_file.Format = table_file.DEFAULT_FORMAT
) -> Table:
  """Opens a table; recognizes CSV, Parquet and other files by content."""
  with data_files.open_file(path) as file:
    beginning = file.read(file_kinds.BEGINNING)
  kind = file_kinds.of_content(beginning)
  table: Table
  if kind is file_kinds.PARQUET:
    if names := written.csv_only_options():
      raise DataError(
        path,
        f"is a Parquet file, which has no {' and no '.join(names)}; leave "
        f"{'it' if len(names) == 1 else 'them'} out.",
      )
    try:
      from tasks.tabular import parquet_file  # noqa: PLC0415
    except ImportError as error:
      raise DataError(
        path,
        "is a Parquet file, which needs the package pyarrow: pip install "
        '"pyarrow<20", or write the table as CSV.',
      ) from error
    table = parquet_file.ParquetFile(path, written)
  elif kind is not None:
    raise DataError(path, kind.problem(path.name))
  elif (
    b"\0" in beginning
    and written.encoding == table_file.DEFAULT_FORMAT.encoding
  ):
    raise DataError(
      path,
      "has zero bytes, which no CSV file in UTF-8 has. Give encoding=utf-16 if "
      "that is its encoding, or save it as CSV in UTF-8.",
    )
  else:
    table = table_file.CsvFile(path, written)
  twice = [k for k, n in Counter(filter(None, table.names)).items() if n > 1]
  if twice:
    raise DataError(path, f"has more than one column {twice[0]!r}.")
  return table


def check_names(table: Table, wanted: Mapping[str, Sequence[str]]) -> None:
  """Checks that a table has the columns in `wanted`, listed by option."""
  known = [name for name in table.names if name]
  missing = []
  for option, names in wanted.items():
    for name in names:
      if name not in known:
        asked = spelling.suggest(name, known, shown=repr)
        missing.append(f"{name!r} ({option}{asked and f'; {asked}'})")
  if missing:
    advice = getattr(table, "header_advice", str)()
    raise DataError(
      table.path,
      f"there is no column {', '.join(missing)}.{advice} It has "
      f"{spelling.join_names(known, 20)}.",
    )


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
  remedies: Mapping[str, str] | None = None,
) -> dict[str, columns.Column]:
  """Returns columns by name, read in one or two passes.

  A numeric column has only numbers and missing values. Columns in `texts` are
  read as texts, columns in `units` as numbers with a unit, and columns in
  `exact` as float64. A `DataError` reports columns in `complete` that lack
  values, with the advice in `remedies`; columns in `categories` whose texts are
  not categories; and columns in `measured` whose numbers have another notation.
  """
  reading = _ColumnReader(table, categories, exact, measured, remedies or {})
  if mixed := reading.gather(names, texts):
    # Reads mixed columns again as texts: numbers have lost their spelling.
    reading.gather(mixed, mixed)
  for name in names:
    reading.check_texts(name)
  faults = reading.faults
  found = {name: reading.column(name) for name in names if name not in faults}
  for name in units:
    if name in found:
      found[name] = reading.strip_units(name, found[name])
  for name in complete:
    if name in found:
      reading.check_complete(name, found[name])
  if faults:
    message = " ".join(faults[name] for name in names if name in faults)
    raise DataError(table.path, f"{message[0].lower()}{message[1:]}")
  return found


class _ColumnReader:
  """Gathers the columns of a table."""

  def __init__(
    self,
    table: Table,
    categories: Collection[str],
    exact: Collection[str],
    measured: Collection[str],
    remedies: Mapping[str, str],
  ) -> None:
    """Takes a table, and the same sets of columns as `read`."""
    self._remedies = remedies
    self._table = table
    self._categories = categories
    self._exact = exact
    self._measured = measured
    self._numbers: dict[str, list[np.ndarray]] = {}
    self._texts: dict[str, columns.TextGatherer] = {}
    self._steps: dict[str, identifiers.RiseCounter] = {}
    # The error message of each faulty column, by name.
    self.faults: dict[str, str] = {}

  def gather(self, names: Sequence[str], texts: Collection[str]) -> list[str]:
    """Gathers columns; returns names of columns with both numbers and texts."""
    texts = {*texts, *self._table.find_text_columns(names)}
    mixed: list[str] = []
    start = 0
    for num_rows, pieces in self._table.read_chunks(names, texts):
      for name, piece in pieces.items():
        if name in self.faults or name in mixed:
          continue
        if piece is None:
          mixed.append(name)
          self._numbers.pop(name, None)
        elif isinstance(piece, tuple):
          found = self._texts.setdefault(name, columns.TextGatherer())
          found.add(*piece)
          # Checks now, before too many distinct texts fill the memory.
          if len(found.values) > text_columns.MAX_CATEGORIES:
            self.check_texts(name)
        elif self._is_finite(name, piece, start):
          self._steps.setdefault(name, identifiers.RiseCounter()).add(piece)
          numbers = self._numbers.setdefault(name, [])
          numbers.append(piece.astype(self._dtype(name)))
      start += num_rows
    return mixed

  def column(self, name: str) -> columns.Column:
    """Returns a gathered column, and drops its pieces."""
    if name in self._texts:
      return self._texts.pop(name).column()
    values = np.concatenate(self._numbers.pop(name))
    return columns.Numbers(values, self._steps[name].are_row_numbers(values))

  def _dtype(self, name: str) -> np.dtype:
    return np.dtype(np.float64 if name in self._exact else np.float32)

  def _is_finite(self, name: str, values: np.ndarray, start: int) -> bool:
    infinite = np.abs(values) > np.finfo(np.float32).max  # False for NaN.
    if infinite.any():
      row = int(np.argmax(infinite))
      self.faults[name] = (
        f"Column {name!r}, {self._table.place(start + row)}: {values[row]:g} "
        "is infinite, or too large for float32. Leave the field empty, or the "
        "column out."
      )
    return name not in self.faults

  def check_complete(self, name: str, column: columns.Column) -> None:
    """Records a fault if a row lacks a value."""
    is_missing = columns.is_missing(column)
    if number := int(is_missing.sum()):
      place = self._table.place(int(is_missing.argmax()))
      times = ""
      if number > 1:
        share = 100 * number / len(is_missing)
        times = f" in {number:,} of {len(is_missing):,} rows ({share:.0f} %)"
      self.faults[name] = (
        f"Column {name!r}, {place}: is empty{times}. Fill it in, or take "
        f"{'the row' if number == 1 else 'these rows'} out"
        f"{self._remedies.get(name, '')}."
      )

  def check_texts(self, name: str) -> None:
    """Records a fault if texts should be numbers, or are not categories."""
    if name not in self._texts:
      return
    found, refusal = self._texts[name], None
    present = [
      text for text in found.values if text not in table_file.NO_NUMBER
    ]
    if name in self._measured:
      refusal = text_columns.number_refusal(
        present, self._table.signs, declared.as_text([name])
      )
    if name in self._categories and refusal is None:
      refusal = text_columns.refusal(present, found.num_texts)
    if refusal is None:
      return
    place = self._table.place(found.first_row(refusal.example))
    remedy = f"{refusal.remedy[0].upper()}{refusal.remedy[1:]}"
    if name in self._categories:
      remedy = f"{text_columns.leave_out(name)}, or {refusal.remedy}"
    self.faults[name] = (
      f"Column {name!r} {refusal.problem}, such as {refusal.example[:60]!r} in "
      f"{place}. {remedy}."
    )
    del self._texts[name]

  def strip_units(self, name: str, column: columns.Column) -> columns.Column:
    """Converts texts to numbers without their units, or records a fault."""
    assert isinstance(column, columns.Texts)  # It was read as texts.
    values, fault = text_columns.parse_numbers(
      column.values, self._table.signs, table_file.NO_NUMBER
    )
    if fault is not None:
      text, problem = fault
      row = int(np.argmax(column.codes == column.values.index(text)))
      self.faults[name] = (
        f"Column {name!r}, {self._table.place(row)}: {text[:60]!r} {problem}. "
        "Correct it, or name it in "
        f"missing={declared.as_text([f'{name}={text}'])}."
      )
      return column
    # The code -1, a missing text, selects the appended NaN.
    numbers = np.append(values, np.nan)[column.codes]
    self._is_finite(name, numbers, 0)
    return columns.Numbers(numbers.astype(self._dtype(name)))


@dataclasses.dataclass(frozen=True)
class SelectedRows:
  """A selection of a table's rows, which knows their places in the table."""

  table: Table  # The whole table.
  rows: np.ndarray  # Positions of the rows in the table, int64[n], ascending.

  @property
  def path(self) -> pathlib.Path:
    """The path of the table."""
    return self.table.path

  def place(self, row: int) -> str:
    """Describes where a selected row is in the file, for messages."""
    return self.table.place(int(self.rows[row]))


def keep_labelled_rows(
  table: Table, found: Mapping[str, columns.Column], label: str
) -> tuple[SelectedRows, dict[str, columns.Column]]:
  """Drops rows without a label, with a notice; returns rows and columns."""
  is_known = ~columns.is_missing(found[label])
  rows = np.flatnonzero(is_known)
  if not rows.size:
    raise DataError(table.path, f"column {label!r} is empty in all rows.")
  if number := len(is_known) - len(rows):
    notices.notify(
      f"{table.path}: {number:,} of {len(is_known):,} rows "
      f"({100 * number / len(is_known):.0f} %) are left out, because their "
      f"{label!r} is empty."
    )
  return SelectedRows(table, rows), {
    name: dataclasses.replace(other, values=other.values[rows])
    if isinstance(other, columns.Numbers)
    else dataclasses.replace(other, codes=other.codes[rows])
    for name, other in found.items()
  }


def notify_unusual_cells(
  table: Table,
  found: Mapping[str, columns.Column],
  *,
  measured: Collection[str],
) -> None:
  """Warns of comments, of texts among numbers, and of texts read as missing."""
  if num_comments := getattr(table, "num_comments", 0):
    notices.notify(
      f"{table.path}: {num_comments:,} comment lines are left out."
    )
  for name in measured:
    column = found[name]
    if isinstance(column, columns.Texts):
      _notify_strays(table, name, column)
  incomplete = [
    name
    for name, column in found.items()
    if isinstance(column, columns.Numbers) and columns.is_missing(column).any()
  ]
  marks = table.count_missing_texts(incomplete) if incomplete else {}
  shown = [
    f"{counts.total():,} of column {name!r} ({', '.join(sorted(counts))})"
    for name, counts in marks.items()
  ]
  if shown:
    notices.notify(
      f"{table.path}: cells read as missing numbers: "
      f"{spelling.join_names(shown, 5)}. If that is right, name these texts in "
      "missing=..."
    )


def notify_similar_texts(
  table: Table, name: str, column: columns.Column
) -> None:
  """Notifies the user of texts that differ only in case or spaces."""
  if not isinstance(column, columns.Texts):
    return
  alike: dict[str, str] = {}
  for value in column.values:
    first = alike.setdefault(" ".join(value.casefold().split()), value)
    if first != value:
      notices.notify(
        f"{table.path}: column {name!r}: {first[:60]!r} and {value[:60]!r} "
        "differ only in case or spaces, but count as two categories. If they "
        "are the same, write them alike."
      )
      return


def _notify_strays(table: Table, name: str, column: columns.Texts) -> None:
  values = column.values
  rows = np.bincount(column.codes + 1, minlength=len(values) + 1)[1:].tolist()
  counts = dict(zip(values, rows, strict=True))
  strays = text_columns.strays(counts, table_file.NO_NUMBER)
  if strays:
    codes = [k for k, value in enumerate(values) if value in strays]
    is_stray = np.isin(column.codes, codes)
    row = int(is_stray.argmax())
    notices.notify(
      f"{table.path}: column {name!r}: {is_stray.sum():,} of {len(is_stray):,} "
      f"cells are not numbers, such as {values[column.codes[row]][:60]!r} in "
      f"{table.place(row)}, so all are read as texts. If the column should "
      "hold numbers, correct these cells, name them in missing=..., or leave "
      "them empty."
    )
