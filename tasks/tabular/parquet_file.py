"""Reads the columns of a Parquet file with pyarrow.

Texts are read like the fields of a CSV file: a column becomes numeric if all
its texts are numbers or missing. A categorical column remains texts.
"""

import io
import pathlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.tabular import columns, table_file, text_columns
from tasks.tabular.table_file import DEFAULT_FORMAT, NO_NUMBER, Format
from tasks.tabular.text_columns import Signs

# The prefix of pandas' names for an unnamed index of rows.
_INDEX = "__index_level_"


class ParquetFile:
  """A Parquet file as a table; see `table_folder.Table`."""

  def __init__(
    self, path: pathlib.Path, written: Format = DEFAULT_FORMAT
  ) -> None:
    """Reads the names of the columns, and the first rows of text columns."""
    self.path = path
    self._written = written
    self._file = _open(path)
    with data_files.reporting_damage(path):
      names = list(self._file.schema_arrow.names)
      # pandas writes categorical numbers as numbers, with a note in metadata.
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
    self._sample = self._first_texts()
    self.signs = Signs(
      written.decimal
      or table_file.detect_decimal_sign(
        text for texts in self._sample.values() for text in texts
      ),
      written.thousands,
    )

  def _first_texts(self) -> dict[str, Sequence[str]]:
    """Returns the distinct texts in the first rows of each text column."""
    names = [
      name
      for name in self.names
      if name and _is_text(self._kind(name)) and name not in self._categories
    ]
    if not names:
      return {}
    batch = next(self._batches(names, table_file.SAMPLE_ROWS))
    with data_files.reporting_damage(self.path):
      return {name: _codes(batch.column(name))[1] for name in names}

  def place(self, row: int) -> str:
    """Describes where a row is, for messages."""
    return f"row {row + 1} (counted from 1)"

  def read_chunks(
    self, names: Sequence[str], texts: Collection[str]
  ) -> Iterator[columns.Chunk]:
    """Yields chunks of rows, like `CsvFile.read_chunks`."""
    self._check_kinds([name for name in names if name not in texts])
    for batch in self._batches(names, table_file.ROWS_PER_CHUNK):
      yield (
        batch.num_rows,
        {
          name: self._piece(name, batch.column(name), name in texts)
          for name in names
        },
      )

  def find_text_columns(self, names: Sequence[str]) -> list[str]:
    """Returns which of `names` have texts in the first rows."""

    def has_texts(name: str) -> bool:
      if name in self._sample:
        return self._numbers(name, self._sample[name]) is None
      kind = self._kind(name)
      return (
        name in self._categories
        or pa.types.is_boolean(kind)
        or pa.types.is_dictionary(kind)
      )

    return [name for name in names if has_texts(name)]

  def count_missing_texts(
    self, names: Sequence[str]
  ) -> dict[str, Counter[str]]:
    """Counts, by column, texts such as NA that are read as missing numbers."""
    written = [name for name in names if name in self._sample]
    found: dict[str, Counter[str]] = {name: Counter() for name in written}
    for batch in self._batches(written, table_file.ROWS_PER_CHUNK):
      for name in written:
        taken = {*NO_NUMBER} - {"", *self._written.missing_in(name)}
        codes, texts = _codes(batch.column(name))
        counts = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        found[name].update(
          {t: n for t, n in zip(texts, counts, strict=True) if t in taken}
        )
    return {name: counts for name, counts in found.items() if counts.total()}

  def _kind(self, name: str) -> pa.DataType:
    return self._file.schema_arrow.field(name).type

  def _batches(
    self, names: Sequence[str], size: int
  ) -> Iterator[pa.RecordBatch]:
    batches = self._file.iter_batches(size, columns=list(names))
    while True:
      with data_files.reporting_damage(self.path):
        batch = next(batches, None)
      if batch is None:
        return
      yield batch

  def _check_kinds(self, names: Sequence[str]) -> None:
    """Raises one `DataError` for all columns with neither numbers nor texts."""
    faults = []
    for name in names:
      kind = self._kind(name)
      if _is_text(kind) or _is_number(kind):
        continue
      is_time = pa.types.is_temporal(kind)
      what = "dates or times" if is_time else f"values of {kind}"
      faults.append(
        f"column {name!r} holds {what}, which are neither numbers nor texts. "
        f"{text_columns.leave_out(name)}, or convert it to numbers."
      )
    if faults:
      raise DataError(self.path, " ".join(faults))

  def _piece(
    self, name: str, array: pa.Array, is_text: bool
  ) -> columns.ColumnChunk:
    kind = array.type
    with data_files.reporting_damage(f"{self.path}, column {name!r}"):
      if is_text:
        codes, texts = _codes(array)
        missing = self._written.missing_in(name)
        return codes, ["" if text in missing else text for text in texts]
      if _is_text(kind):
        codes, texts = _codes(array)
        numbers = self._numbers(name, texts)
        # The code -1, a missing text, selects the appended NaN.
        return None if numbers is None else np.append(numbers, np.nan)[codes]
      if not pa.types.is_floating(kind):
        # Permits rounding: large integers lose digits, as in any float.
        array = array.cast(pa.float64(), safe=False)
      values = array.to_numpy(zero_copy_only=False).astype(np.float64)
      return self._with_missing(name, values)

  def _numbers(self, name: str, texts: Sequence[str]) -> np.ndarray | None:
    return table_file.read_numbers(
      texts, self.signs, self._written.missing_in(name)
    )

  def _with_missing(self, name: str, values: np.ndarray) -> np.ndarray:
    """Returns numbers, with NaN for values that an option declares missing."""
    missing = [
      written.value
      for text in self._written.missing_in(name)
      if (written := text_columns.read_number(text, self.signs))
    ]
    return np.where(np.isin(values, missing), np.nan, values)


def _open(path: pathlib.Path) -> parquet.ParquetFile:
  source: pathlib.Path | io.BytesIO = path
  # Usually, a Parquet file is compressed internally, not as a whole.
  if data_files.is_compressed(path):
    with data_files.open_file(path) as file:
      source = io.BytesIO(file.read())
  with data_files.reporting_damage(path):
    return parquet.ParquetFile(source)


def _is_text(kind: pa.DataType) -> bool:
  return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind: pa.DataType) -> bool:
  return (
    pa.types.is_integer(kind)
    or pa.types.is_floating(kind)
    or pa.types.is_decimal(kind)
    or pa.types.is_null(kind)  # A completely empty column.
  )


def _codes(array: pa.Array) -> tuple[np.ndarray, list[str]]:
  """Returns each row's code, -1 if missing, and the text of each code."""
  if not pa.types.is_dictionary(array.type):
    array = array.dictionary_encode()
  codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
  values = array.dictionary
  # Booleans become the texts True and False, as in Python and pandas.
  if not pa.types.is_boolean(values.type):
    values = values.cast(pa.string())
  return codes, ["" if v is None else str(v) for v in values.to_pylist()]
