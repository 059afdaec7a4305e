"""Reads, writes and checks checksums.json: sizes and SHA-256 of files."""

import hashlib
import os
import pathlib
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from tff_fair.files import atomic, parsing

FILE = "checksums.json"
_CHUNK = 1 << 20  # Bytes.


class Hasher:
  """Computes checksums; reads only the new bytes of a file that has grown."""

  def __init__(self) -> None:
    # By path: the file's inode, the number of bytes read, and their digest.
    self._known: dict[pathlib.Path, tuple[int, int, Any]] = {}

  def checksum(self, file: pathlib.Path) -> dict[str, Any]:
    """Returns a file's checksum: its size in bytes and its SHA-256."""
    with file.open("rb") as opened:
      found = os.fstat(opened.fileno())
      anew = (found.st_ino, 0, hashlib.sha256())
      inode, size, digest = self._known.get(file, anew)
      if inode != found.st_ino or found.st_size < size:
        _, size, digest = anew
      opened.seek(size)
      while chunk := opened.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    self._known[file] = found.st_ino, size, digest
    return {"bytes": size, "sha256": digest.hexdigest()}


def write(
  folder: pathlib.Path,
  paths: Iterable[pathlib.Path],
  hasher: Hasher | None = None,
  staged: Iterable[pathlib.Path] = (),
) -> None:
  """Writes the checksums of the files `paths`, by their names in `folder`.

  A `staged` file is read instead of the file with the same name. If there are
  staged files, the checksums are written to their folder.
  """
  hasher = hasher or Hasher()
  files = {str(path.relative_to(folder)): path for path in paths}
  place = folder
  for path in staged:
    files[path.name], place = path, path.parent
  found = {name: hasher.checksum(files[name]) for name in sorted(files)}
  atomic.write(place / FILE, parsing.json_text(found))


def read(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
  """Returns the checksums in a folder, by file name."""
  try:
    content = parsing.parse_json((folder / FILE).read_bytes())
  except parsing.ParseError as error:
    raise parsing.ParseError(f"{FILE} is not JSON") from error
  if (
    not isinstance(content, dict)
    or not content
    or not all(isinstance(value, dict) for value in content.values())
  ):
    raise parsing.ParseError(f"{FILE} holds no checksums")
  return content


def forget(file: pathlib.Path) -> None:
  """Removes the checksum of a file that is about to change."""
  try:
    found = read(file.parent)
  except (FileNotFoundError, parsing.ParseError):
    return
  if found.pop(file.name, None) is not None:
    atomic.write(file.with_name(FILE), parsing.json_text(found))


def difference(
  file: pathlib.Path,
  expected: Mapping[str, Any],
  *,
  verify: bool = True,
  may_grow: bool = False,
) -> str | None:
  """Returns how a file differs from a checksum ("has changed"), or None.

  Without `verify`, only sizes are compared; with `may_grow`, the file may have
  more bytes at the end.
  """
  found = file.stat()
  if not stat.S_ISREG(found.st_mode):
    return "is not a file"  # Reading a pipe, for example, may never end.
  size = expected.get("bytes")
  if not isinstance(size, int):
    return f"has a checksum without a size in {FILE}"
  if found.st_size < size or (found.st_size > size and not may_grow):
    return f"has {found.st_size} bytes instead of {size}"
  if verify and _digest(file, size) != expected.get("sha256"):
    return "has changed"
  return None


def _digest(file: pathlib.Path, size: int) -> str:
  """Returns the SHA-256 of a file's first `size` bytes."""
  digest = hashlib.sha256()
  with file.open("rb") as opened:
    while chunk := opened.read(min(_CHUNK, size)):
      digest.update(chunk)
      size -= len(chunk)
  return digest.hexdigest()
