"""Tests of arrays in shared memory."""

import contextlib
import gc
import os
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.runtime import shared_memory

ARRAYS = {
  "a matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
  "columns of another": np.arange(24, dtype=np.int64).reshape(4, 6)[:, ::2],
  "one without a number": np.array([[np.nan, np.inf]], np.float64),
  "truths": np.array([[True], [False]]),
  "three dimensions": np.arange(800, dtype=np.uint8).reshape(2, 4, 100),
}


def shared(array):
  file = shared_memory.SharedFile()
  file.write(array)
  return file


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_tensorflow_reads_what_is_written(array):
  file = shared(array)
  tensor = tf.io.parse_tensor(tf.io.read_file(file.path), array.dtype)
  np.testing.assert_array_equal(tensor, array)


def test_what_tensorflow_writes_is_read():
  for array, shape in (
    # Rows larger than the head of the file.
    (np.ones([3, 50, 20], np.float32), (None, 50, 20)),
    (np.arange(1000)[np.newaxis], (None, 1000)),
    (np.arange(1000), (1000,)),
  ):
    file = shared_memory.SharedFile()
    tf.io.write_file(file.path, tf.io.serialize_tensor(tf.constant(array)))
    read = file.read(array.dtype, shape)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype
    assert type(read) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
      read[0] = 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(read)), array)


def test_a_file_is_known_by_the_whole_array_alone():
  file = shared(np.ones([40, 100], np.float32))
  array = file.read(np.float32, (None, 100))
  assert shared_memory.file_of(array) is file
  assert shared_memory.file_of(array[:]) is file
  for other in (
    array[1:],
    array[::-1],
    array.T,
    array.reshape(100, 40),
    array.view(np.int32),
    array.copy(),
    np.ones([40, 100], np.float32),
  ):
    assert shared_memory.file_of(other) is None


def test_a_file_goes_with_its_array():
  file = shared(np.ones([40, 100], np.float32))
  identity = identity_of(file.path)
  array = file.read(np.float32, (None, 100))
  row = array[3]
  del file, array
  gc.collect()
  assert identity in open_files()
  np.testing.assert_array_equal(row, np.ones(100))
  del row
  gc.collect()
  assert identity not in open_files()


def identity_of(path):
  """Returns what tells a file from all others that are open."""
  status = os.stat(path)
  return status.st_dev, status.st_ino


def open_files():
  """Returns the identities of this process' open files.

  A descriptor's number says nothing: another thread may have it by now.
  """
  identities = set()
  for number in os.listdir("/proc/self/fd"):
    with contextlib.suppress(FileNotFoundError):
      identities.add(identity_of(f"/proc/self/fd/{number}"))
  return identities
