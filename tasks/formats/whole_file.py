"""Data files that are there as a whole or not at all: `tasks.formats.files`.

Its errors are `DataError`s here, as all trouble with data is.
"""

import contextlib
import pathlib
from collections.abc import Iterator

from tasks.data_error import DataError
from tasks.formats import files


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Yields a place to write a file to, as `files.replacement`.

  Args:
    path: The place that the file shall have.
    overwrite: Whether the file may replace another.

  Raises:
    DataError: If there is a file already, or it cannot be written.
  """
  try:
    with files.replacement(path, overwrite=overwrite) as staged:
      yield staged
  except OSError as error:
    raise DataError(str(error)) from error


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a file may be written, as `files.check_free`.

  Raises:
    DataError: If there is one already, and `overwrite` is false.
  """
  try:
    files.check_free(path, overwrite=overwrite)
  except OSError as error:
    raise DataError(str(error)) from error
