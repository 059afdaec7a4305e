"""Reads files in the idx format of MNIST (http://yann.lecun.com/exdb/mnist)."""

import math
import pathlib
import struct
from collections.abc import Mapping

import numpy as np

from tasks.data_error import DataError
from tasks.formats import source_file

_TYPES: Mapping[int, np.dtype] = {
  0x08: np.dtype("u1"),
  0x09: np.dtype("i1"),
  0x0B: np.dtype(">i2"),
  0x0C: np.dtype(">i4"),
  0x0D: np.dtype(">f4"),
  0x0E: np.dtype(">f8"),
}


def read(
  path: pathlib.Path,
  num_axes: int | None = None,
  on_read: source_file.OnRead = source_file.ignore,
) -> np.ndarray:
  """Returns the array in an idx file, compressed with gzip or not.

  Args:
    path: The file.
    num_axes: How many axes the array must have; None takes any.
    on_read: Told how much was read.

  Returns:
    The array, in the shape and type that the file says.

  Raises:
    DataError: If the file is no idx file, has another number of axes, or is too
      short or too long.
  """
  with source_file.opened(path, on_read) as file:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
      raise DataError(
        f"{path}: is no idx file: it starts with {magic!r}, expected two zero "
        "bytes, a type and a number of axes."
      )
    if num_axes is not None and magic[3] != num_axes:
      raise DataError(
        f"{path}: holds an array of {magic[3]} axes, expected {num_axes}."
      )
    dtype = _TYPES[magic[2]]
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
      raise DataError(f"{path}: is truncated in its header.")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    expected = math.prod(shape) * dtype.itemsize
    content = bytearray()
    # In pieces: a damaged header may ask for more than there is.
    while chunk := file.read(min(1 << 20, expected + 1 - len(content))):
      content += chunk
  if len(content) != expected:
    found = "more" if len(content) > expected else f"{len(content):,}"
    raise DataError(
      f"{path}: expected {expected:,} bytes of data for the shape {shape}, "
      f"found {found}. Copy or download it again."
    )
  return np.frombuffer(content, dtype).reshape(shape)
