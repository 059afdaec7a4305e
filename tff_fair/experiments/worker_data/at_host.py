"""Looks whether the host that runs this has the data of a folder."""

import os
import pathlib
from collections.abc import Sequence

IS_MISSING = "is missing"
IS_SHORTER = "is shorter than the index says, or cannot be read"
IS_NO_FILE = "is no file"  # Whoever reads a pipe or a device waits for ever.
IS_ANOTHER = "is of another version"


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
      with pathlib.Path(path).open("rb") as file:
        file.seek(num_bytes)
        found = file.read().decode("ascii", "replace")
    except OSError:
      return f"{path} {IS_SHORTER}"
    if found != version:
      is_cut = len(found) < len(version)
      return f"{path} {IS_SHORTER if is_cut else IS_ANOTHER}"
  return None
