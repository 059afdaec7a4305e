"""Writes small idx files, as MNIST's."""

import gzip
import struct

import numpy as np

_TYPES = {"uint8": 0x08, "int32": 0x0C, "float32": 0x0D}


def idx_bytes(array):
  header = struct.pack(
    f">HBB{array.ndim}I", 0, _TYPES[array.dtype.name], array.ndim, *array.shape
  )
  return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(path, array):
  content = idx_bytes(array)
  path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
  return path


def write_mnist(directory, *, writers=True, suffix=""):
  """Writes 30 train and 10 test digits, of 3 writers each, 2 in both halves."""
  directory.mkdir(exist_ok=True)
  for mnist, qmnist, size, first_writer in (
    ("train", "train", 30, 1),
    ("t10k", "test", 10, 2),
  ):
    labels = np.arange(size, dtype=np.uint8) % 10
    pixels = np.zeros([size, 28, 28], np.uint8)
    pixels[:, 0, 0] = 51 * (np.arange(size) % 6)
    table = np.zeros([size + 3, 8], np.int32)  # QMNIST has more test digits.
    table[:size, 0] = labels
    table[:size, 2] = first_writer + np.arange(size) % 3
    write_idx(directory / f"{mnist}-images-idx3-ubyte{suffix}", pixels)
    write_idx(directory / f"{mnist}-labels-idx1-ubyte{suffix}", labels)
    if writers:
      write_idx(directory / f"qmnist-{qmnist}-labels-idx2-int{suffix}", table)
  return directory
