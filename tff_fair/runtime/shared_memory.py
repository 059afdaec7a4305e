"""Arrays in memory that this program shares with its worker.

Each is in an anonymous file of Linux (memfd_create), as TensorFlow's
`tf.io.serialize_tensor` writes it. The worker opens it under /proc. Such a file
has no name that could be left behind: the kernel drops it when no process has
it open any more, however the program ends.
"""

from __future__ import annotations

import math
import mmap
import os
import pathlib
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

# Field 4 of a `TensorProto`, `tensor_content`: bytes.
_TENSOR_CONTENT = bytes([4 << 3 | 2])

# Who keeps the states of many rounds must still be able to open files: an array
# here takes two of the 1,024 that systems usually allow.
_MOST_FILES = 200
_files: weakref.WeakSet[SharedFile] = weakref.WeakSet()


def is_available() -> bool:
  """Returns whether processes of this user can share such files."""
  files = pathlib.Path("/proc/self/fd")
  # A process that must not be looked at has files that belong to root.
  return (
    hasattr(os, "memfd_create")
    and files.is_dir()
    and files.stat().st_uid == os.geteuid()
  )


def has_room(num_files: int) -> bool:
  """Returns whether this program may have so many files more."""
  return len(_files) + num_files <= _MOST_FILES


class SharedFile:
  """An anonymous file, as long as this object lives."""

  def __init__(self) -> None:
    self._descriptor = os.memfd_create("tff_fair")
    weakref.finalize(self, os.close, self._descriptor)
    _files.add(self)

  @property
  def path(self) -> str:
    """Where other processes of this user open it."""
    # Of this process: a fork has the file too.
    return f"/proc/{os.getpid()}/fd/{self._descriptor}"

  @property
  def num_bytes(self) -> int:
    """The size of the file."""
    return os.fstat(self._descriptor).st_size

  def write(self, array: np.ndarray) -> None:
    """Writes an array of numbers, contiguous or not."""
    array = np.ascontiguousarray(array)
    head = tensor_pb2.TensorProto(
      dtype=tf.as_dtype(array.dtype).as_datatype_enum,
      tensor_shape=tf.TensorShape(array.shape).as_proto(),
    )
    content = array.data.cast("B")
    with open(self._descriptor, "wb", buffering=0, closefd=False) as file:
      file.write(
        head.SerializeToString() + _TENSOR_CONTENT + _varint(len(content))
      )
      while content:  # A system call writes 2 GiB at most.
        content = content[file.write(content) :]

  def read(self, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Returns the array in the file, which keeps the file, read-only.

    Args:
      dtype: Its type.
      shape: Its shape. Where the number of rows is `None`, there are as many as
        the file has room for; each takes more bytes than the file's head.
    """
    mapped = _Mapped(self._descriptor, 0, prot=mmap.PROT_READ)
    dtype = np.dtype(dtype)
    num_rows, row_shape = shape[0], shape[1:]
    num_values = math.prod(size or 0 for size in row_shape)  # In a row.
    if num_rows is None:
      num_rows = len(mapped) // (num_values * dtype.itemsize)
    start = len(mapped) - num_rows * num_values * dtype.itemsize
    flat = np.frombuffer(mapped, dtype, num_rows * num_values, start)
    array = flat.reshape(num_rows, *row_shape)
    mapped.file, mapped.content = self, _place(array)
    return array


class _Mapped(mmap.mmap):
  """A file in the memory of this program.

  Attributes:
    file: The file.
    content: The `_place` of the whole content, as an array.
  """

  file: SharedFile
  content: tuple[Any, ...]


def file_of(array: np.ndarray) -> SharedFile | None:
  """Returns the file that an array is the whole content of, if it is one."""
  base: Any = array
  while isinstance(base, (np.ndarray, memoryview)):
    base = base.base if isinstance(base, np.ndarray) else base.obj
  if not isinstance(base, _Mapped) or _place(array) != base.content:
    return None
  return base.file


def _place(array: np.ndarray) -> tuple[Any, ...]:
  """Returns what tells a view of memory from all others."""
  address, _ = array.__array_interface__["data"]
  return address, array.dtype, array.shape, array.strides


def _varint(number: int) -> bytes:
  """Returns a number as protobuf writes it."""
  pieces = []
  while number >= 0x80:
    pieces.append(number & 0x7F | 0x80)
    number >>= 7
  return bytes([*pieces, number])
