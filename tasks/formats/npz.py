"""Reads the arrays of an npz file; never loads a pickle."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from tasks import notices
from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import data_files, file_kinds, source_files

# First bytes of a zip file, and of a single array, for which `_open` raises a
# separate error.
_STARTS = (b"PK", b"\x93N")


def read(
  path: pathlib.Path,
  names: Sequence[str],
  *,
  what: str,
  optional: Sequence[str] = (),
) -> dict[str, np.ndarray]:
  """Returns the arrays `names`, and those of `optional` that exist, by name."""
  with _open(path, what) as arrays:
    missing = [name for name in names if name not in arrays]
    if missing:
      raise DataError(
        path,
        f"is not a {what}: it lacks {', '.join(missing)}; found "
        f"{', '.join(arrays.files) or 'nothing'}.",
      )
    wanted = [*names, *(name for name in optional if name in arrays)]
    others = sorted(set(arrays.files) - set(wanted))
    if others:
      notices.notify(
        f"{path}: ignores the arrays {', '.join(others)}; reads only "
        f"{', '.join([*names, *optional])}."
      )
    found = {name: _member(path, arrays, name) for name in wanted}
    for name, array in found.items():
      _check(path, name, array)
    return found


def names(path: pathlib.Path, *, what: str) -> Sequence[str]:
  """Returns the names of a file's arrays, without reading the arrays."""
  with _open(path, what) as arrays:
    return list(arrays.files)


@contextlib.contextmanager
def _open(path: pathlib.Path, what: str) -> Iterator[np.lib.npyio.NpzFile]:
  source_files.note(path)
  with reporting_unreadable(path):
    with path.open("rb") as file:
      beginning = file.read(file_kinds.BEGINNING)
    if beginning and beginning[:2] not in _STARTS:
      kind = file_kinds.of_content(beginning)
      problem = f"is {kind.name}" if kind else f"is not a {what}"
      raise DataError(
        path, f"{problem}: expected an npz file, as numpy.savez writes it."
      )
    with data_files.reporting_damage(path):
      content = np.load(path, allow_pickle=False)
      if not isinstance(content, np.lib.npyio.NpzFile):
        raise DataError(
          path,
          f"is not a {what}: it holds one array, expected an npz file, as "
          "numpy.savez writes it.",
        )
      with content as arrays:
        yield arrays


def _member(
  path: pathlib.Path, arrays: np.lib.npyio.NpzFile, name: str
) -> np.ndarray:
  try:
    return arrays[name]
  except ValueError as error:
    if "allow_pickle" not in str(error):
      raise
    raise DataError(
      path,
      f"{name} is an array of Python objects, which no program reads safely; "
      f"save {name}.astype(str) for texts, or .astype(float) for numbers.",
    ) from error


def _check(path: pathlib.Path, name: str, array: object) -> None:
  """Checks that a file's member is an array, without invalid strings."""
  # NumPy returns a member as bytes if it does not begin like an array.
  if not isinstance(array, np.ndarray):
    raise DataError(path, f"is damaged: {name} is not an array.")
  if array.dtype.kind == "U":
    codes = np.frombuffer(array.tobytes(), f"{array.dtype.str[0]}u4")
    if codes.max(initial=0) > sys.maxunicode:
      raise DataError(path, f"is damaged: {name} has invalid texts.")
