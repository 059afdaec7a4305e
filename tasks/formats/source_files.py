"""The files that a task's data come from, and their digests.

Readers call `note` for each file that they open; `recording` collects them.
"""

import contextlib
import contextvars
import functools
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

# The most bytes to read, in total, for the digests of a task's files.
MOST_BYTES = 2**30
_BLOCK = 2**20
_LEAST_BLOCK = 2**12  # The smallest block, if there are many files.
_MOST_NAMES = 20

_noted: contextvars.ContextVar[dict[pathlib.Path, None] | None] = (
  contextvars.ContextVar("noted", default=None)
)


@contextlib.contextmanager
def recording() -> Iterator[Mapping[pathlib.Path, None]]:
  """Yields a mapping whose keys are the files that the block's readers note."""
  outer = _noted.get()
  found: dict[pathlib.Path, None] = {}
  token = _noted.set(found)
  try:
    yield found
  finally:
    _noted.reset(token)
    if outer is not None:
      outer |= found


def note(*paths: pathlib.Path) -> None:
  """Adds files to the current `recording`, if any; call it before reading."""
  if (found := _noted.get()) is not None:
    found |= dict.fromkeys(paths)


def digests(files: Iterable[pathlib.Path]) -> dict[str, str]:
  """Returns files' SHA-256 digests by path below the files' common folder.

  If the files have more than `MOST_BYTES` in total, digests cover only evenly
  spaced blocks and each file's size. More than 20 files get a single digest,
  with the number of files as its name.
  """
  sizes = {}
  for path in dict.fromkeys(map(os.path.abspath, files)):
    with contextlib.suppress(FileNotFoundError):
      sizes[path] = os.stat(path)
  if not sizes:
    return {}
  folder = common_folder(sizes) or ""
  share = 1.0
  if (total := sum(stat.st_size for stat in sizes.values())) > MOST_BYTES:
    share = MOST_BYTES / total
  found = {
    pathlib.Path(os.path.relpath(path, folder)).as_posix(): _digest(
      path, stat.st_size, stat.st_mtime_ns, share
    )
    for path, stat in sorted(sizes.items())
  }
  if len(found) <= _MOST_NAMES:
    return found
  return {f"{len(found):,} files": combine(found)}


def common_folder(files: Iterable[str | os.PathLike[str]]) -> str | None:
  """Returns the innermost folder that has all files; None without files."""
  folders = {os.path.dirname(os.path.abspath(path)) for path in files}
  return os.path.commonpath(folders) if folders else None


def combine(found: Mapping[str, str]) -> str:
  """Combines several digests into one."""
  lines = (f"{name}\0{digest}\n" for name, digest in sorted(found.items()))
  return hashlib.sha256(os.fsencode("".join(lines))).hexdigest()


@functools.lru_cache(maxsize=1024)
def _digest(path: str, size: int, changed: int, share: float) -> str:
  """Returns a digest of a `share` of a file, cached by the arguments.

  `changed` is the time of modification, so that a changed file is read again.
  """
  del changed
  sha256 = hashlib.sha256(str(size).encode())
  with open(path, "rb") as file:
    for block in _blocks(file, size, share):
      sha256.update(block)
  return sha256.hexdigest()


def _blocks(file: BinaryIO, size: int, share: float) -> Iterator[bytes]:
  """Yields a file's blocks; if `share` is below 1, evenly spaced ones."""
  wanted = int(size * share)
  block = min(_BLOCK, max(_LEAST_BLOCK, wanted))
  number = max(2, wanted // block)
  if share == 1 or number * block >= size:
    while content := file.read(_BLOCK):
      yield content
    return
  for start in np.linspace(0, size - block, number).astype(np.int64).tolist():
    file.seek(start)
    yield file.read(block)


def list_files(folder: pathlib.Path) -> Sequence[pathlib.Path]:
  """Returns the files in a folder and its subfolders."""
  return sorted(path for path in folder.rglob("*") if path.is_file())
