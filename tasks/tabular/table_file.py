"""CSV files: options of their format, and a reader of their columns.

pandas parses the fields. But it pads rows that are too short and does not
report line numbers, so Python's module csv finds the line of an error. The
Parquet reader, too, parses numbers in texts with `read_numbers`.
"""

import codecs
import csv
import dataclasses
import io
import itertools
import pathlib
import re
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from tasks import options
from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.tabular import columns
from tasks.tabular.text_columns import Signs
from tff_fair import declared

if typing.TYPE_CHECKING:
  import pandas as pd

# Texts that mean a missing number. In a column of texts, only an empty text is
# missing, because NA can be the name of a country.
NO_NUMBER = (
  *("", "?", "-", "NA", "N/A", "n/a", "#N/A", "<NA>"),
  *("NaN", "nan", "-nan", "-NaN", "null", "NULL", "None", "none"),
)
_NO_TEXT = ("",)
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_LIKELY_SEPARATORS = (*_SEPARATORS, "|", ":", " ")
# Numbers with decimals and perhaps a unit.
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(\s*[^\W\d_]+|\s*%)?")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+(\s*[^\W\d_]+|\s*%)?")
# How surrogateescape decodes bytes that are not UTF-8.
_BYTES = re.compile("[\udc80-\udcff]")
ROWS_PER_CHUNK = 1 << 18
# The number of first rows that usually show which columns have numbers.
SAMPLE_ROWS = 10_000
# Usual beginnings of comment lines.
_COMMENTS = ("#", "%", "//")


def _sign(text: str) -> str:
  """Returns a separator; a tab if `text` is a backslash and a t."""
  return "\t" if text == "\\t" else text


def _is_encoding(name: str) -> bool:
  try:
    codecs.lookup(name)
  except LookupError:
    return False
  return True


_A_SIGN: declared.Bounds = {
  "expects": "one character",
  "is_valid": lambda text: len(text) == 1,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format(options.TaskOptions):
  """The format of a table; only CSV has a separator, encoding, comments."""

  separator: str | None = declared.value(
    None,
    "The separator of fields in a CSV file; with none, the task detects comma, "
    "semicolon or tab.",
    expects="one character",
    is_valid=lambda text: len(_sign(text)) == 1,
  )
  decimal: str | None = declared.value(
    None,
    "The decimal sign of numbers. With none, the task detects a decimal comma "
    "if the separator is another sign, and in texts of a Parquet file.",
    **_A_SIGN,
  )
  thousands: str | None = declared.value(
    None, "The sign between thousands; none means no sign.", **_A_SIGN
  )
  encoding: str = declared.value(
    "utf-8",
    'The encoding of a CSV file, such as "utf-8", "latin-1" or "utf-16".',
    expects="an encoding",
    is_valid=_is_encoding,
  )
  comment: str | None = declared.value(
    None,
    'The sign that comment lines of a CSV file begin with, such as "#": these '
    "lines are left out and counted. None means no comments.",
    expects="a sign, such as #",
    is_valid=bool,
  )
  missing: declared.Names | None = declared.value(
    None,
    'Further texts that mean a missing field, such as "-9,unknown", or '
    '"age=-9" for one column. None means only empty fields and the usual '
    "texts.",
  )

  def csv_only_options(self) -> list[str]:
    """Returns the names of the given options that only apply to CSV files."""
    names = ("separator", "encoding", "comment")
    return [n for n in names if getattr(self, n) != getattr(DEFAULT_FORMAT, n)]

  def missing_in(self, name: str) -> list[str]:
    """Returns the texts that `missing` declares missing in column `name`."""
    return [
      text if not of_column else missing
      for text in self.missing or ()
      for column, of_column, missing in [text.partition("=")]
      if not of_column or column == name
    ]

  def columns_with_missing(self) -> list[str]:
    """Returns the columns for which `missing` has a text, such as "age=-9"."""
    texts = (text.partition("=") for text in self.missing or ())
    return [column for column, of_column, _ in texts if of_column]


DEFAULT_FORMAT = Format()


class CsvFile:
  """A CSV file with a header."""

  def __init__(
    self, path: pathlib.Path, csv_format: Format = DEFAULT_FORMAT
  ) -> None:
    """Reads the header."""
    self.path = path
    # The number of comment lines that `read_chunks` skipped.
    self.num_comments = 0
    self._encoding = csv_format.encoding
    self._written = csv_format
    given = csv_format.separator
    self._separator = _sign(given) if given else self._found_separator()
    beginning = list(itertools.islice(self._rows(), 2))
    if len(beginning) < 2:
      what = "a header, but no rows" if beginning else "nothing in it"
      raise DataError(path, f"has {what}.")
    (_, names), first = beginning
    self.names: Sequence[str] = [name.strip() for name in names]
    # If the first row is longer, pandas uses its first field as the index.
    self._check_length(*first)
    self.signs = Signs(
      csv_format.decimal or self._found_decimal(), csv_format.thousands
    )

  def _found_separator(self) -> str:
    def num_names(separator: str) -> int:
      self._separator = separator
      _, names = next(self._rows(), (0, []))
      return len(names)

    return max(_SEPARATORS, key=num_names)  # A tie goes to the first.

  def _found_decimal(self) -> str:
    if self._separator == ",":
      return "."
    rows = itertools.islice(self._rows(), 1, SAMPLE_ROWS)
    return detect_decimal_sign(field for _, row in rows for field in row)

  def place(self, row: int) -> str:
    """Describes where a row is, for messages; row 0 follows the header."""
    # Rows may span several lines, and empty lines are not rows.
    line, _ = next(itertools.islice(self._rows(), row + 1, None))
    return f"line {line} (the header counts)"

  def read_chunks(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Chunk]:
    """Yields chunks: the number of rows, and columns by name.

    A column outside `texts` is None if some of its fields in the chunk are not
    numbers.
    """
    positions = {name: self.names.index(name) for name in names}
    dtypes = {positions[name]: "category" for name in texts}
    missing = {
      k: [
        *(_NO_TEXT if k in dtypes else NO_NUMBER),
        *self._written.missing_in(name),
      ]
      for k, name in enumerate(self.names)
    }
    last, may_be_short = len(self.names) - 1, False
    # Parses all columns, since pandas then notices rows that are too long.
    for frame in self._frames(
      dtype=dtypes, na_values=missing, chunksize=ROWS_PER_CHUNK
    ):
      may_be_short = may_be_short or bool(frame[last].isna().any())
      yield (
        len(frame),
        {name: _column_chunk(frame[k]) for name, k in positions.items()},
      )
    if may_be_short:
      self._check_lengths()

  def find_text_columns(self, names: Sequence[str]) -> list[str]:
    """Returns which of `names` have texts in the first rows."""
    (frame,) = self._frames(
      na_values={
        k: [*NO_NUMBER, *self._written.missing_in(name)]
        for k, name in enumerate(self.names)
      },
      nrows=SAMPLE_ROWS,
    )
    return [n for n in names if not _has_numbers(frame[self.names.index(n)])]

  def count_missing_texts(
    self, names: Sequence[str]
  ) -> dict[str, Counter[str]]:
    """Counts, by column, texts such as NA that are read as missing numbers.

    Texts that the option `missing` names are not counted.
    """
    positions = {name: self.names.index(name) for name in names}
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for frame in self._frames(
      dtype=str,
      na_filter=False,
      usecols=list(positions.values()),
      chunksize=ROWS_PER_CHUNK,
    ):
      for name, k in positions.items():
        missing_texts = {*NO_NUMBER} - {"", *self._written.missing_in(name)}
        counts = frame[k][frame[k].isin(missing_texts)].value_counts()
        found[name].update(counts.to_dict())
    return {name: counts for name, counts in found.items() if counts}

  def _frames(self, **options: typing.Any) -> Iterator["pd.DataFrame"]:
    """Yields frames from `pandas.read_csv`, with columns by position."""
    import pandas as pd  # noqa: PLC0415

    with data_files.open_file(self.path) as file:
      lines = None
      if self._written.comment is not None:
        lines = self._lines(file)
      try:
        found = _read(
          lines or file,
          self.signs,
          header=0,
          names=range(len(self.names)),
          index_col=False,
          sep=self._separator,
          encoding=self._encoding,
          **options,
        )
        yield from [found] if isinstance(found, pd.DataFrame) else found
      except (pd.errors.ParserError, UnicodeError) as error:
        self._check_lengths()
        raise DataError(
          self.path, f"cannot be read: {data_files.reason(error)}."
        ) from error
      if lines is not None:
        self.num_comments = max(self.num_comments, lines.num_comments)

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
        f"quotation marks.{self.header_advice()}",
      )

  def header_advice(self) -> str:
    """Returns advice if the header is a comment or a single field, else ""."""
    if self._written.comment is None:
      for sign in _COMMENTS:
        if self.names[0].startswith(sign):
          return (
            f" The first line begins with {sign}: if that is a comment, give "
            f"comment={sign}."
          )
    if len(self.names) > 1:
      return ""
    header, given = self.names[0], self._written.separator
    likely = max(_LIKELY_SEPARATORS, key=header.count)
    if likely in header:
      shown = "\\t" if likely == "\t" else likely
      is_detectable = given and likely in _SEPARATORS
      return (
        f" The separator {self._separator!r} does not divide the header, "
        f"{header[:40]!r}: {'leave separator out, or ' * bool(is_detectable)}"
        f"give separator='{shown}'."
      )
    return (
      " Name the separator of the columns; if the header is not the first "
      "line, take out the lines above it."
    )

  def _rows(self) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each row's first line, and the row's fields."""
    with data_files.open_file(self.path) as file:
      reader = csv.reader(
        self._lines(file), delimiter=self._separator, skipinitialspace=True
      )
      while True:
        line = reader.line_num + 1
        try:
          row = next(reader, None)
        except UnicodeError as error:
          raise self._encoding_error(line) from error
        except csv.Error as error:
          raise DataError(f"{self.path}, line {line}", f"{error}.") from error
        if row is None:
          return
        content = "".join(row)
        if not content.isascii() and _BYTES.search(content):
          raise self._encoding_error(line)
        if len(row) > 1 or content.strip():  # pandas skips empty lines.
          yield line, row

  def _lines(self, file: typing.IO[bytes]) -> "_Lines":
    # A byte that is not UTF-8 must not affect the lines before it.
    is_utf_8 = self._encoding.lower().replace("_", "-") in (
      "utf-8",
      "utf8",
    )
    text = io.TextIOWrapper(
      file,
      "utf-8-sig" if is_utf_8 else self._encoding,
      errors="surrogateescape" if is_utf_8 else "strict",
      newline="",
    )
    return _Lines(text, self._written.comment)

  def _encoding_error(self, line: int) -> DataError:
    return DataError(
      f"{self.path}, line {line}",
      f"is not {self._encoding.upper()}. Name the encoding of the file, such "
      "as encoding=latin-1 or encoding=utf-16, or save it as CSV in UTF-8.",
    )


class _Lines:
  """The lines of a text; comment lines become empty, to keep line numbers."""

  def __init__(self, text: Iterator[str], comment: str | None) -> None:
    """Takes the lines, and the sign with which comment lines begin."""
    self.num_comments = 0  # The number of comment lines so far.
    self._text = text
    self._comment = comment
    self._is_quoted = False  # Whether a field continues on the next line.
    self._rest = ""

  def __iter__(self) -> Iterator[str]:
    return self

  def __next__(self) -> str:
    line = next(self._text)
    if self._comment is None:
      return line
    if not self._is_quoted and line.lstrip().startswith(self._comment):
      self.num_comments += 1
      return "\n"
    self._is_quoted ^= line.count('"') % 2 == 1
    return line

  def read(self, size: int) -> str:
    """Returns the next characters, up to `size`."""
    parts, length = [self._rest], len(self._rest)
    while length < size and (line := next(self, "")):
      parts.append(line)
      length += len(line)
    content = "".join(parts)
    self._rest = content[size:]
    return content[:size]


def detect_decimal_sign(fields: Iterable[str]) -> str:
  """Returns the decimal sign: "," if fields have decimal commas, not points."""
  stripped = [field.strip() for field in fields]
  has_points = any(map(_DECIMAL_POINT.fullmatch, stripped))
  has_commas = any(map(_DECIMAL_COMMA.fullmatch, stripped))
  return "," if has_commas and not has_points else "."


def read_numbers(
  texts: Sequence[str], signs: Signs, missing: Collection[str]
) -> np.ndarray | None:
  """Parses texts like the fields of a CSV file.

  Returns float64[n] with NaN if missing, or None if any text is not a number.
  """
  import pandas as pd  # noqa: PLC0415

  if not texts:
    return np.zeros(0)
  file = io.StringIO()
  csv.writer(file, quoting=csv.QUOTE_ALL).writerows([text] for text in texts)
  file.seek(0)
  try:
    frame = _read(
      file,
      signs,
      header=None,
      names=[0],
      sep="\t",
      na_values=[*NO_NUMBER, *missing],
      skip_blank_lines=False,
    )
  except pd.errors.ParserError:
    return None
  column = frame[0]
  return column.to_numpy(np.float64) if _has_numbers(column) else None


def _read(file: typing.Any, signs: Signs, **options: typing.Any) -> typing.Any:
  """Returns the result of `pandas.read_csv` with the options for all tables."""
  import pandas as pd  # noqa: PLC0415

  return pd.read_csv(
    file,
    skipinitialspace=True,
    keep_default_na=False,
    decimal=signs.decimal,
    thousands=signs.thousands,
    low_memory=False,
    **options,
  )


def _has_numbers(column: "pd.Series") -> bool:
  return column.dtype.kind in "iuf"


def _column_chunk(column: "pd.Series") -> columns.ColumnChunk:
  if column.dtype == "category":
    return column.cat.codes.to_numpy(), list(column.cat.categories)
  return column.to_numpy(np.float64) if _has_numbers(column) else None
