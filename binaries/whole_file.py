"""Writes text files that are there as a whole or not at all."""

import os
import pathlib

from tasks import staging


def write(path: pathlib.Path, text: str) -> None:
  """Writes a file, in the place of one that may be there.

  Raises:
    OSError: If it cannot be written.
  """
  unfinished = path.with_name(f"{path.name}.unfinished")
  unfinished.write_text(text)
  staging.sync(unfinished)
  os.replace(unfinished, path)
  staging.sync(path.parent)
