"""Reads the columns of a Parquet file by pyarrow, which pandas reads it by."""

import pathlib
import typing
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.tabular import columns, text_columns
from tasks.tabular.text_columns import Signs

if typing.TYPE_CHECKING:
  import pyarrow as pa
  from pyarrow import parquet

MAGIC = b"PAR1"
# What pandas calls the index of its rows, where it has no name.
_INDEX = "__index_level_"
_ROWS_OF_A_PIECE = 1 << 18


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
      self._categories = _categories_of_pandas(self._file)
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
      numbers = array if pa.types.is_floating(kind) else _floats(array)
      return numbers.to_numpy(zero_copy_only=False).astype(np.float64)


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


def _categories_of_pandas(file: "parquet.ParquetFile") -> set[str]:
  # pandas writes categories of numbers as numbers, and notes what they were.
  noted = file.schema_arrow.pandas_metadata or {}
  return {
    column["name"]
    for column in noted.get("columns", [])
    if column["pandas_type"] == "categorical"
  }


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


def _floats(array: "pa.Array") -> "pa.Array":
  import pyarrow as pa  # noqa: PLC0415

  # Not safe: large integers lose digits, as they do in every float.
  return array.cast(pa.float64(), safe=False)


def _codes(array: "pa.Array") -> tuple[np.ndarray, list[str]]:
  import pyarrow as pa  # noqa: PLC0415

  if not pa.types.is_dictionary(array.type):
    array = array.dictionary_encode()
  codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
  values = array.dictionary.cast(pa.string()).to_pylist()
  return codes, ["" if value is None else value for value in values]
