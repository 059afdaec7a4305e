"""Files that hold clients' examples, for the worker on this machine to read.

A file has no name: the worker reaches it through this program, as
/proc/PID/fd/N. So nothing is left behind, however the program ends. A file goes
when nobody uses it any more; until then the limits count it.
"""

from __future__ import annotations

import collections
import os
import resource
import shutil
import tempfile
import threading
import weakref
from collections.abc import Hashable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime

# The share of the free space that files may take, and the most in any case. A
# temporary folder may lie in memory.
_SHARE_OF_FREE = 0.25
_MOST_BYTES = 8 * 2**30
# The share of the files that this program may have open, and the most.
_SHARE_OF_OPEN = 0.5
_MOST_FILES = 8192


class ClientFile:
  """A file of one client; it goes with the last reference to it."""

  def __init__(self, contents: Sequence[np.ndarray]) -> None:
    """Writes the file.

    Args:
      contents: The bytes, uint8[n] each.

    Raises:
      OSError: If there is no room, or too many files are open.
    """
    # A file of this kind never has a name, where the system can do that.
    self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    weakref.finalize(self, self._file.close).atexit = False
    for array in contents:
      rest = array.data
      while rest:
        rest = rest[self._file.write(rest) :]

  @property
  def path(self) -> str:
    """Where other processes of the same user find the file."""
    return f"/proc/{os.getpid()}/fd/{self._file.fileno()}"


class _Usage:
  """Counts the files that are open. It must not hold on to them."""

  def __init__(self) -> None:
    self.num_files = self.num_bytes = 0
    self._counting = threading.RLock()  # Files go in any thread.

  def add(self, num_files: int, num_bytes: int) -> None:
    with self._counting:
      self.num_files += num_files
      self.num_bytes += num_bytes


class ClientFiles:
  """Keeps the files used last, within limits. For one thread at a time."""

  def __init__(self, most_bytes: int, most_files: int) -> None:
    """Takes the limits, of all files that are open."""
    self._most_bytes = most_bytes
    self._most_files = most_files
    self._kept: collections.OrderedDict[Hashable, ClientFile] = (
      collections.OrderedDict()
    )
    self._usage = _Usage()

  def get(self, key: Hashable) -> ClientFile | None:
    """Returns the file with a key, if there still is one."""
    file = self._kept.pop(key, None)
    if file is not None:
      self._kept[key] = file  # Last: the most recently used.
    return file

  def put(
    self, key: Hashable, contents: Sequence[np.ndarray]
  ) -> ClientFile | None:
    """Writes a file; returns `None` if there is no room for it.

    Args:
      key: What `get` finds it by.
      contents: The bytes, uint8[n] each.
    """
    size = sum(array.nbytes for array in contents)
    while self._is_full(size) and self._kept:
      self._kept.popitem(last=False)
    if self._is_full(size):
      return None
    try:
      file = ClientFile(contents)
    except OSError:
      return None
    self._usage.add(1, size)
    weakref.finalize(file, self._usage.add, -1, -size).atexit = False
    self._kept[key] = file
    return file

  def _is_full(self, size: int) -> bool:
    return (
      self._usage.num_files >= self._most_files
      or self._usage.num_bytes + size > self._most_bytes
    )


def open_files() -> ClientFiles | None:
  """Returns room for files that the worker reads; `None` if it cannot.

  It can where it runs on this machine, and may look into /proc.
  """
  if runtime.count_clients() is None:
    return None
  try:
    probe = ClientFile([np.arange(3, dtype=np.uint8)])
    if _read_by_worker(probe.path) != b"\0\1\2":
      return None
    free = shutil.disk_usage(tempfile.gettempdir()).free
  # Whatever it is: the examples then travel in messages.
  except Exception:
    return None
  most_open, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  return ClientFiles(
    min(int(free * _SHARE_OF_FREE), _MOST_BYTES),
    min(int(most_open * _SHARE_OF_OPEN), _MOST_FILES),
  )


def _read_by_worker(path: str) -> bytes:
  """Returns what the worker finds in a file."""

  @tff.tensorflow.computation(np.str_)
  def read(path: tf.Tensor) -> tf.Tensor:
    return tf.io.read_file(path)

  return read(path)
