"""Reads and writes the npz files in a run's folder."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tasks.data_error import DataError
from tasks.formats import data_files
from tff_fair.experiments.errors import DamageError, RunError
from tff_fair.files import atomic


def write(path: pathlib.Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
  """Writes named arrays to a file atomically; replaces an earlier file."""
  with (
    atomic.replacement(path, overwrite=True) as place,
    place.open("wb") as file,
  ):
    np.savez(file, **arrays)


@contextlib.contextmanager
def read(
  path: pathlib.Path, advice: str = ""
) -> Iterator[dict[str, np.ndarray]]:
  """Yields a file's arrays by name; a damaged file raises `DamageError`.

  Errors in the block raise it, too, so put only the reading of arrays into it.
  The error's text ends with `advice`.
  """
  try:
    with data_files.reporting_damage(path):
      with np.load(path, allow_pickle=False) as content:
        arrays = dict(content)
      yield arrays
  except DataError as error:
    raise DamageError(f"{error} {advice}".rstrip()) from error
  except OSError as error:
    raise RunError(
      f"{path}: cannot be read: {error.strerror or error}."
    ) from error
