"""The files of the cache: private to the user, whole, and bounded.

A file that cannot be read or written is no error, and the program says nothing:
a cache only saves time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import stat
import uuid
from collections.abc import Iterator

_MOST_BYTES = 256 * 2**20
_FORMAT = "compilations-1"  # A new format takes a new folder.
_FORBIDDEN = stat.S_IRWXG | stat.S_IRWXO


def of_user() -> pathlib.Path | None:
  """Returns where the user's cache is to be; `None` without a home."""
  homes = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"))
  # The standard has paths that are not absolute ignored.
  absolute = [home for home in homes if os.path.isabs(home)]
  return pathlib.Path(absolute[0], "tff_fair", _FORMAT) if absolute else None


class Folder:
  """Files by name; those that were not used for the longest time go first."""

  def __init__(
    self, path: pathlib.Path, *, most_bytes: int = _MOST_BYTES
  ) -> None:
    """Takes the place of the files, which need not exist.

    Args:
      path: The folder.
      most_bytes: The size of all files together; none is larger than a quarter.
    """
    self._path = path
    self._most_bytes = most_bytes

  def read(self, name: str) -> bytes | None:
    """Returns the content of a file; `None` if it is missing or not whole."""
    with contextlib.suppress(OSError), self._opened() as folder:
      descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
      with open(descriptor, "rb") as file:
        if not _is_own(os.fstat(descriptor)):
          return None
        content = file.read()
      os.utime(name, dir_fd=folder)  # Used now.
      return _checked(content)
    return None

  def write(self, name: str, content: bytes) -> None:
    """Writes a file if possible, in the place of one that may be there."""
    if 4 * len(content) > self._most_bytes:
      return
    with contextlib.suppress(OSError):
      self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
      # By its descriptor: where others may write to the folder around it, the
      # path may lead to another one by now.
      with self._opened() as folder:
        # Another program may write the same.
        unfinished = f"{name}.{uuid.uuid4().hex}"
        descriptor = os.open(
          unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder
        )
        try:
          with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
          os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
          os.unlink(unfinished, dir_fd=folder)
          raise
        self._remove_old(folder)

  @contextlib.contextmanager
  def _opened(self) -> Iterator[int]:
    """Opens the folder, if this user alone may write to it.

    Raises:
      OSError: If there is none, or other users may write to it.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(self._path, flags)
    try:
      if not _is_own(os.fstat(descriptor)):
        raise PermissionError(f"{self._path}: others may write to it.")
      yield descriptor
    finally:
      os.close(descriptor)

  def _remove_old(self, folder: int) -> None:
    """Removes the files that take too much room together."""
    files = sorted(
      (
        (os.stat(name, dir_fd=folder, follow_symlinks=False), name)
        for name in os.listdir(folder)
      ),
      key=lambda file: file[0].st_mtime_ns,
    )
    excess = sum(status.st_size for status, _ in files) - self._most_bytes
    for status, name in files:
      if excess <= 0:
        return
      os.unlink(name, dir_fd=folder)
      excess -= status.st_size


def _is_own(status: os.stat_result) -> bool:
  """Returns whether a file or folder is the user's, and private."""
  return status.st_uid == os.geteuid() and not status.st_mode & _FORBIDDEN


def _checked(content: bytes) -> bytes | None:
  """Returns what was written, if it is still the same."""
  size = hashlib.sha256().digest_size
  digest, written = content[:size], content[size:]
  return written if hashlib.sha256(written).digest() == digest else None
