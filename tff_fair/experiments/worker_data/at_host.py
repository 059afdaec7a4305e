"""Looks whether the host that runs this has the data of a folder."""

import os
from collections.abc import Sequence

import numpy as np

# Hexadecimal digits at the end of each array's file.
VERSION_BYTES = 64

IS_MISSING = "is missing"
IS_SHORTER = "is shorter than the index says, or cannot be read"
IS_NO_FILE = "is no file"  # Reading a pipe or a device may never end.
IS_ANOTHER = "is of another version"
IS_NOT_READ = "cannot be read in time, as a pipe, or a disk that is gone"


def problem(files: Sequence[tuple[str, int]], version: str) -> str | None:
  """Returns the first problem; `None` if the host has all files.

  Args:
    files: The path of each file, and the bytes of its rows.
    version: The version at the end of each.
  """
  for path, num_bytes in files:
    if not os.path.exists(path):
      return f"{path} {IS_MISSING}"
    if not os.path.isfile(path):
      return f"{path} {IS_NO_FILE}"
    try:
      found = after_rows(path, num_bytes)
    except OSError:
      return f"{path} {IS_SHORTER}"
    if found != version:
      is_cut = len(found) < len(version)
      return f"{path} {IS_SHORTER if is_cut else IS_ANOTHER}"
  return None


def after_rows(path: str | os.PathLike[str], num_bytes: int) -> str:
  """Returns what a file holds after its rows: its version, if it is whole.

  Args:
    path: The file.
    num_bytes: The bytes of its rows.

  Raises:
    OSError: If it cannot be read.
  """
  with open(path, "rb") as file:
    file.seek(num_bytes)
    # Where the version ends, the file does.
    return file.read(VERSION_BYTES + 1).decode("ascii", "replace")


def no_class(
  path: str, num_bytes: int, dtype: str, num_classes: int
) -> tuple[int, int] | None:
  """Returns the first label that is no class: its place and its value.

  Args:
    path: The file.
    num_bytes: The bytes of its rows.
    dtype: The type of the labels, integers.
    num_classes: The classes are the numbers below.
  """
  number = num_bytes // np.dtype(dtype).itemsize
  labels = np.memmap(path, dtype, "r", shape=(number,))
  wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))[:1]
  return (int(wrong[0]), int(labels[wrong[0]])) if wrong.size else None
