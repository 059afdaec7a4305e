"""Where a data set may be, as seen from `--data_dir`."""

import pathlib
from collections.abc import Sequence

from tasks.data_error import DataError

PAGE = "docs/tasks.md"  # Which files each task reads.


def require(
  data_dir: pathlib.Path | None, *, what: str, files: str
) -> pathlib.Path:
  """Returns the directory that the user named.

  Args:
    data_dir: The directory, if there is one.
    what: Name of the data, for the error message.
    files: The files that it consists of, for the same.

  Raises:
    DataError: If no directory was named.
  """
  if data_dir is None:
    raise DataError(
      f"data_dir is not given: name the directory that has {what} ({files}); "
      f"see {PAGE}."
    )
  return data_dir


def first_existing(
  directory: pathlib.Path, names: Sequence[str], *, what: str
) -> pathlib.Path:
  """Returns the first file or folder that is there.

  Args:
    directory: Where to look.
    names: Names it may have.
    what: Name of the data, for the error message.

  Raises:
    DataError: If there is none.
  """
  for name in names:
    if (directory / name).exists():
      return directory / name
  raise DataError(
    f"{directory}: has no {what}; expected {' or '.join(names)}; see {PAGE}."
  )
