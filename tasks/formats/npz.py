"""Reads the arrays of an npz file; never runs a pickle."""

import pathlib
from collections.abc import Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.formats import source_file


def read(
  path: pathlib.Path,
  names: Sequence[str],
  *,
  what: str,
  optional: Sequence[str] = (),
) -> dict[str, np.ndarray]:
  """Returns arrays by name.

  Args:
    path: The file.
    names: Names of the arrays.
    what: What the file should be, for error messages.
    optional: Names of arrays that the file may lack.

  Raises:
    DataError: If the file cannot be read or lacks an array.
  """
  try:
    with source_file.damage_named(path):
      content = np.load(path, allow_pickle=False)
      if not isinstance(content, np.lib.npyio.NpzFile):
        raise DataError(f"{path}: is no {what}: expected a file of arrays.")
      with content as arrays:
        missing = [name for name in names if name not in arrays]
        if missing:
          raise DataError(
            f"{path}: is no {what}: has no {', '.join(missing)}; found "
            f"{', '.join(arrays.files) or 'nothing'}."
          )
        found = [*names, *(name for name in optional if name in arrays)]
        return {name: arrays[name] for name in found}
  except OSError as error:
    raise DataError(
      f"{path}: cannot be read: {error.strerror or error}."
    ) from error
