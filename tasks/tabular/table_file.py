"""Reads the columns of a CSV file, compressed by gzip or not, or of Parquet.

pandas parses the fields of CSV. It pads rows that are too short, and knows no
line numbers, so Python's own reader looks for the line where something is
wrong. Parquet is read by pyarrow, by which pandas reads it.
"""

import csv
import dataclasses
import io
import itertools
import pathlib
import re
import typing
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.tabular import columns, text_columns
from tasks.tabular.text_columns import Signs

if typing.TYPE_CHECKING:
  import pandas as pd
  import pyarrow as pa
  from pyarrow import parquet

# What stands for a missing number. A missing text is the empty one alone, so
# that a country called NA stays one.
NO_NUMBER = (
  *("", "?", "-", "NA", "N/A", "n/a", "#N/A", "<NA>"),
  *("NaN", "nan", "-nan", "-NaN", "null", "NULL", "None", "none"),
)
_NO_TEXT = ("",)
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
# Numbers with decimals, which may have a unit.
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(\s*[^\W\d_]+|\s*%)?")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+(\s*[^\W\d_]+|\s*%)?")
# What surrogateescape makes of bytes that are no UTF-8.
_BYTES = re.compile("[\udc80-\udcff]")
_ROWS_OF_A_PIECE = 1 << 18
# The first rows tell numbers from texts, as far as they can.
_ROWS_OF_THE_SAMPLE = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
  """How a CSV file is written.

  Attributes:
    separator: What stands between fields; None takes that of comma, semicolon
      and tab which divides the header into most names.
    decimal: What stands before the decimals of numbers; None takes a comma
      where the separator is none and the first rows have decimal commas and no
      decimal points, otherwise a point.
    thousands: What stands between thousands; None means nothing.
    encoding: The encoding of the file, as Python names it.
    missing: What stands for a missing field, beside what does anyway.
    missing_of: The same for single columns, by name.
  """

  separator: str | None = None
  decimal: str | None = None
  thousands: str | None = None
  encoding: str = "utf-8"
  missing: Sequence[str] = ()
  missing_of: Mapping[str, Sequence[str]] = dataclasses.field(
    default_factory=dict
  )


UNKNOWN = Format()


class CsvFile:
  """A CSV file with a header."""

  def __init__(self, path: pathlib.Path, written: Format = UNKNOWN) -> None:
    """Reads the header.

    Args:
      path: The file.
      written: How it is written.

    Raises:
      DataError: If the file cannot be read, or has no header or no rows.
    """
    self.path = path
    self._encoding = written.encoding
    self._written = written
    self._separator = written.separator or self._found_separator()
    beginning = list(itertools.islice(self._rows(), 2))
    if len(beginning) < 2:
      what = "a header, but no rows" if beginning else "nothing in it"
      raise DataError(path, f"has {what}.")
    (_, names), first = beginning
    self.names: Sequence[str] = [name.strip() for name in names]
    # pandas would take the first field of a longer row for its name.
    self._check_length(*first)
    self.signs = Signs(
      written.decimal or self._found_decimal(), written.thousands
    )

  def _found_separator(self) -> str:
    def num_names(separator: str) -> int:
      self._separator = separator
      _, names = next(self._rows(), (0, []))
      return len(names)

    return max(_SEPARATORS, key=num_names)  # The first of equal ones.

  def _found_decimal(self) -> str:
    if self._separator == ",":
      return "."
    rows = itertools.islice(self._rows(), 1, _ROWS_OF_THE_SAMPLE)
    fields = [field.strip() for _, row in rows for field in row]
    has_points = any(map(_DECIMAL_POINT.fullmatch, fields))
    has_commas = any(map(_DECIMAL_COMMA.fullmatch, fields))
    return "," if has_commas and not has_points else "."

  def place(self, row: int) -> str:
    """Returns where the file has a row, in words; row 0 follows the header."""
    # Rows may span several lines, and empty lines are no rows.
    line, _ = next(itertools.islice(self._rows(), row + 1, None))
    return f"line {line} (the header counts)"

  def pieces(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Rows]:
    """Yields columns, some rows at a time.

    Args:
      names: The columns.
      texts: Those of them that are texts, whatever they hold. All others are
        numbers if all of their fields are.

    Yields:
      The number of rows, and columns by name; None for a column that looked
      like numbers at first, and has other fields in these rows.

    Raises:
      DataError: If the file is damaged or ragged; it names the line.
    """
    positions = {name: self.names.index(name) for name in names}
    texts = {*texts, *self._texts_of_sample(positions)}
    dtypes = {positions[name]: "category" for name in texts}
    missing = {
      k: [*(_NO_TEXT if k in dtypes else NO_NUMBER), *self._missing(name)]
      for k, name in enumerate(self.names)
    }
    last, may_be_short = len(self.names) - 1, False
    # All columns are parsed: pandas does not see long rows otherwise.
    for frame in self._frames(
      dtype=dtypes, na_values=missing, chunksize=_ROWS_OF_A_PIECE
    ):
      may_be_short = may_be_short or bool(frame[last].isna().any())
      yield (
        len(frame),
        {name: _piece(frame[k]) for name, k in positions.items()},
      )
    if may_be_short:
      self._check_lengths()

  def marks(self, names: Sequence[str]) -> dict[str, Counter[str]]:
    """Counts the texts that are taken as missing numbers of their own accord.

    Args:
      names: Columns of numbers.

    Returns:
      The number of cells with each such text, by column.
    """
    positions = {name: self.names.index(name) for name in names}
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for frame in self._frames(
      dtype=str,
      na_filter=False,
      usecols=list(positions.values()),
      chunksize=_ROWS_OF_A_PIECE,
    ):
      for name, k in positions.items():
        taken = {*NO_NUMBER} - {"", *self._missing(name)}
        counts = frame[k][frame[k].isin(taken)].value_counts()
        found[name].update(counts.to_dict())
    return {name: counts for name, counts in found.items() if counts}

  def _missing(self, name: str) -> list[str]:
    written = self._written
    return [*written.missing, *written.missing_of.get(name, ())]

  def _texts_of_sample(self, positions: Mapping[str, int]) -> list[str]:
    (frame,) = self._frames(
      na_values={
        k: [*NO_NUMBER, *self._missing(name)]
        for k, name in enumerate(self.names)
      },
      nrows=_ROWS_OF_THE_SAMPLE,
    )
    return [name for name, k in positions.items() if not _has_numbers(frame[k])]

  def _frames(self, **options: typing.Any) -> Iterator["pd.DataFrame"]:
    """Yields what `pandas.read_csv` makes, columns called by their position."""
    import pandas as pd  # noqa: PLC0415

    with data_files.opened(self.path) as file:
      try:
        found = pd.read_csv(
          file,
          header=0,
          names=range(len(self.names)),
          index_col=False,
          skipinitialspace=True,
          keep_default_na=False,
          sep=self._separator,
          decimal=self.signs.decimal,
          thousands=self.signs.thousands,
          encoding=self._encoding,
          low_memory=False,
          **options,
        )
        yield from [found] if isinstance(found, pd.DataFrame) else found
      except (pd.errors.ParserError, UnicodeError) as error:
        self._check_lengths()
        raise DataError(
          self.path, f"cannot be read: {data_files.reason(error)}."
        ) from error

  def _check_lengths(self) -> None:
    for line, row in self._rows():
      self._check_length(line, row)

  def _check_length(self, line: int, row: Sequence[str]) -> None:
    if len(row) != len(self.names):
      sign = _SEPARATORS.get(self._separator, repr(self._separator))
      raise DataError(
        self.path,
        f"line {line} has {len(row)} fields, the header has "
        f"{len(self.names)}. A field with {sign} or a line end in it needs "
        "quotation marks.",
      )

  def _rows(self) -> Iterator[tuple[int, list[str]]]:
    """Yields the fields of each row, and the line where it begins."""
    with data_files.opened(self.path) as file:
      # A byte that is no UTF-8 must not end the lines before it.
      is_utf_8 = self._encoding.lower().replace("_", "-") in ("utf-8", "utf8")
      text = io.TextIOWrapper(
        file,
        "utf-8-sig" if is_utf_8 else self._encoding,
        errors="surrogateescape" if is_utf_8 else "strict",
        newline="",
      )
      reader = csv.reader(
        text, delimiter=self._separator, skipinitialspace=True
      )
      while True:
        line = reader.line_num + 1
        try:
          row = next(reader, None)
        except UnicodeError as error:
          raise self._not_encoded(line) from error
        except csv.Error as error:
          raise DataError(f"{self.path}, line {line}", f"{error}.") from error
        if row is None:
          return
        content = "".join(row)
        if not content.isascii() and _BYTES.search(content):
          raise self._not_encoded(line)
        if len(row) > 1 or content.strip():  # pandas leaves out empty lines.
          yield line, row

  def _not_encoded(self, line: int) -> DataError:
    return DataError(
      f"{self.path}, line {line}",
      f"is not {self._encoding.upper()}. Name the encoding of the file, such "
      "as encoding=latin-1 or encoding=utf-16, or save it as CSV in UTF-8.",
    )


def _has_numbers(column: "pd.Series") -> bool:
  return column.dtype.kind in "iuf"


def _piece(column: "pd.Series") -> columns.Piece:
  if column.dtype == "category":
    return column.cat.codes.to_numpy(), list(column.cat.categories)
  return column.to_numpy(np.float64) if _has_numbers(column) else None


# Parquet.

PARQUET_MAGIC = b"PAR1"
# What pandas calls the index of its rows, where it has no name.
_INDEX = "__index_level_"


class ParquetFile:
  """A Parquet file."""

  def __init__(self, path: pathlib.Path) -> None:
    """Reads the names of the columns.

    Raises:
      DataError: If the file cannot be read or has no rows, or pyarrow is
        missing.
    """
    self.path = path
    self.signs = Signs()
    self._file = _opened(path)
    with data_files.damage_named(path):
      names = list(self._file.schema_arrow.names)
      # pandas writes categories of numbers as numbers, and notes which.
      noted = self._file.schema_arrow.pandas_metadata or {}
      self._categories = {
        column["name"]
        for column in noted.get("columns", [])
        if column["pandas_type"] == "categorical"
      }
    self.names: Sequence[str] = [
      "" if name.startswith(_INDEX) else name for name in names
    ]
    if self._file.metadata.num_rows == 0:
      raise DataError(path, "has no rows.")

  def place(self, row: int) -> str:
    """Returns which row one is, in words."""
    return f"row {row + 1} (counted from 1)"

  def pieces(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Rows]:
    """Yields columns, some rows at a time; otherwise as `CsvFile.pieces`.

    Raises:
      DataError: If the file is damaged, or a column has neither numbers nor
        texts.
    """
    texts = {*texts, *self._categories}
    self._check_kinds([name for name in names if name not in texts])
    batches = self._file.iter_batches(_ROWS_OF_A_PIECE, columns=list(names))
    while True:
      with data_files.damage_named(self.path):
        batch = next(batches, None)
      if batch is None:
        return
      yield (
        batch.num_rows,
        {
          name: self._piece(name, batch.column(name), name in texts)
          for name in names
        },
      )

  def _check_kinds(self, names: Sequence[str]) -> None:
    """Checks that columns have numbers or texts; names all that have not."""
    import pyarrow as pa  # noqa: PLC0415

    faults = []
    for name in names:
      kind = self._file.schema_arrow.field(name).type
      has_words = pa.types.is_boolean(kind) or pa.types.is_dictionary(kind)
      if has_words or _is_text(kind) or _is_number(kind):
        continue
      is_time = pa.types.is_temporal(kind)
      what = "dates or times" if is_time else f"values of {kind}"
      faults.append(
        f"column {name!r} holds {what}, which are neither numbers nor texts. "
        f"{text_columns.leave_out(name)}, or make numbers of it."
      )
    if faults:
      raise DataError(self.path, f"{' '.join(faults)}")

  def _piece(
    self, name: str, array: "pa.Array", is_text: bool
  ) -> columns.Piece:
    import pyarrow as pa  # noqa: PLC0415

    kind = array.type
    with data_files.damage_named(f"{self.path}, column {name!r}"):
      if is_text:
        return _codes(array.cast(pa.string()))
      if pa.types.is_boolean(kind):
        # As Python and pandas write them.
        array = array.dictionary_encode()
        words = [str(value.as_py()) for value in array.dictionary]
        return _codes(array)[0], words
      if pa.types.is_dictionary(kind) or _is_text(kind):
        return _codes(array)
      if not pa.types.is_floating(kind):
        # Not safe: large integers lose digits, as they do in every float.
        array = array.cast(pa.float64(), safe=False)
      return array.to_numpy(zero_copy_only=False).astype(np.float64)


def _opened(path: pathlib.Path) -> "parquet.ParquetFile":
  try:
    from pyarrow import parquet  # noqa: PLC0415
  except ImportError as error:
    raise DataError(
      path,
      "is a Parquet file, and pyarrow is missing, which reads it: pip install "
      '"pyarrow<20", or write the table as CSV.',
    ) from error
  with data_files.damage_named(path):
    return parquet.ParquetFile(path)


def _is_text(kind: "pa.DataType") -> bool:
  import pyarrow as pa  # noqa: PLC0415

  return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind: "pa.DataType") -> bool:
  import pyarrow as pa  # noqa: PLC0415

  return (
    pa.types.is_integer(kind)
    or pa.types.is_floating(kind)
    or pa.types.is_decimal(kind)
    or pa.types.is_null(kind)  # A column that is empty all over.
  )


def _codes(array: "pa.Array") -> tuple[np.ndarray, list[str]]:
  import pyarrow as pa  # noqa: PLC0415

  if not pa.types.is_dictionary(array.type):
    array = array.dictionary_encode()
  codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
  values = array.dictionary.cast(pa.string()).to_pylist()
  return codes, ["" if value is None else value for value in values]
