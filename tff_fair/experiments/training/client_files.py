"""Files that hold clients' examples, for the worker on this machine to map.

A file has no name: the worker reaches it through this program, as
/proc/PID/fd/N. So nothing is left behind, however the program ends. Many
clients share a file. It goes when the program uses no client of it any more;
until then the limit counts it.
"""

from __future__ import annotations

import collections
import os
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import example_files

# The share of the free space that files may take, and the most in any case. A
# temporary folder may lie in memory.
_SHARE_OF_FREE = 0.25
_MOST_BYTES = 8 * 2**30
# No more than a part of the whole goes at a time, and programs may have few
# files open.
_MOST_PARTS = 64


class _Part:
  """A file for each array, of many clients; they go with the last reference."""

  def __init__(self, num_arrays: int) -> None:
    # Files of this kind never have names, where the system can do that.
    self._files = [
      tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
      for _ in range(num_arrays)
    ]
    for file in self._files:
      weakref.finalize(self, file.close).atexit = False
    self._ends = [0] * num_arrays
    self.num_rows = 0

  @property
  def num_bytes(self) -> int:
    """The size of all files."""
    return sum(self._ends)

  @property
  def paths(self) -> list[str]:
    """Where other processes of the same user find the files."""
    pid = os.getpid()
    return [f"/proc/{pid}/fd/{file.fileno()}" for file in self._files]

  def append(self, num_rows: int, contents: Sequence[np.ndarray]) -> None:
    """Writes the rows of each array, uint8[n].

    Raises:
      OSError: If there is no room; then there is only what was there before.
    """
    ends = [
      end + _write(file.fileno(), array, end)
      for file, end, array in zip(
        self._files, self._ends, contents, strict=True
      )
    ]
    self._ends = ends
    self.num_rows += num_rows


def _write(descriptor: int, array: np.ndarray, place: int) -> int:
  """Writes an array, uint8[n], and returns n."""
  rest = array.data
  while rest:
    size = os.pwrite(descriptor, rest, place + array.size - len(rest))
    rest = rest[size:]
  return array.size


class StoredClient(NamedTuple):
  """A client's rows in files; it keeps the files.

  Attributes:
    part: The files.
    first_row: The first row in each.
    num_rows: The client's number of examples.
  """

  part: _Part
  first_row: int
  num_rows: int

  @property
  def places(self) -> tuple[example_files.Place, ...]:
    """Where the rows of each array are."""
    return tuple(
      example_files.Place(path, self.first_row) for path in self.part.paths
    )


class ClientFiles:
  """Keeps clients' rows within a limit. For one thread at a time."""

  def __init__(self, most_bytes: int) -> None:
    """Takes the limit, of all files that are open."""
    self._most_bytes = most_bytes
    self._stored: dict[Hashable, StoredClient] = {}
    # The keys of each part's clients; the part used last is the last one.
    self._keys: collections.OrderedDict[_Part, list[Hashable]] = (
      collections.OrderedDict()
    )
    self._open: weakref.WeakSet[_Part] = weakref.WeakSet()
    self._written: _Part | None = None

  def get(self, key: Hashable) -> StoredClient | None:
    """Returns what `put` has stored with a key, if it still is there."""
    stored = self._stored.get(key)
    if stored is not None:
      self._keys.move_to_end(stored.part)
    return stored

  def put(
    self, key: Hashable, num_rows: int, contents: Sequence[np.ndarray]
  ) -> StoredClient | None:
    """Stores a client; returns `None` if there is no room for it.

    Args:
      key: What `get` finds it by.
      num_rows: The client's number of examples.
      contents: The bytes of its arrays, uint8[n] each. Rows of an array have
        the same size for all clients.
    """
    size = sum(array.nbytes for array in contents)
    while self._is_full(size) and self._keys:
      self._drop_oldest()
    if self._is_full(size):
      return None
    try:
      part = self._part_for(size, len(contents))
      stored = StoredClient(part, part.num_rows, num_rows)
      part.append(num_rows, contents)
    except OSError:
      return None
    self._stored[key] = stored
    self._keys[part].append(key)
    return stored

  def _is_full(self, size: int) -> bool:
    written = sum(part.num_bytes for part in self._open)
    return written + size > self._most_bytes

  def _drop_oldest(self) -> None:
    part, keys = self._keys.popitem(last=False)
    for key in keys:
      del self._stored[key]
    if part is self._written:
      self._written = None

  def _part_for(self, size: int, num_arrays: int) -> _Part:
    part = self._written
    if part is None or (
      part.num_bytes + size > self._most_bytes // _MOST_PARTS
    ):
      part = self._written = _Part(num_arrays)
      self._open.add(part)
      self._keys[part] = []
    return part


def open_files() -> ClientFiles | None:
  """Returns room for files that the worker maps; `None` if it cannot.

  It can where it runs on this machine, and may look into /proc.
  """
  if runtime.count_clients() is None:
    return None
  try:
    if not _worker_reads():
      return None
    free = shutil.disk_usage(tempfile.gettempdir()).free
  # After any error, the examples travel in messages.
  except Exception:
    return None
  return ClientFiles(min(int(free * _SHARE_OF_FREE), _MOST_BYTES))


def _worker_reads() -> bool:
  """Returns whether the worker finds in a file what this program wrote."""
  array = np.arange(3, dtype=np.int32)
  spec = tf.TensorSpec([None], tf.int32)
  stored = ClientFiles(2**20).put(0, 3, example_files.contents(array, spec))
  if stored is None:
    return False
  dataset = example_files.InFiles(spec)(7, stored.num_rows, stored.places)

  @tff.tensorflow.computation(tff.SequenceType(dataset.element_type))
  def read(data: tf.data.Dataset) -> tf.Tensor:
    return data.get_single_element()

  client_id, found = read(dataset)
  return client_id == 7 and np.array_equal(found, array)
