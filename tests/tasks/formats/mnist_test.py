"""Tests of reading files in MNIST's format: whole, truncated or wrong."""

import numpy as np
import pytest

from tasks.formats import mnist
from tests.refusals import refused
from tests.tasks import image_data


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize(
  "array",
  [
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    np.array([[-1, 2**31 - 1]], np.int32),
    np.array([0.5, -2], np.float32),
    np.zeros([0, 28, 28], np.uint8),
  ],
  ids=lambda array: array.dtype.name,
)
def test_round_trip(tmp_path, name, array):
  path = image_data.write_idx(tmp_path / name, array)
  found = mnist.read_idx(path, array.ndim)
  np.testing.assert_array_equal(found, array)
  assert found.shape == array.shape


_WHOLE = image_data.idx_bytes(np.ones([5, 3], np.uint8))


@pytest.mark.parametrize(
  ("content", "facts"),
  [
    (_WHOLE[:0], ["not an idx file"]),
    (_WHOLE[:3], ["not an idx file"]),
    (_WHOLE[:4], ["truncated"]),
    (_WHOLE[:11], ["truncated"]),
    (_WHOLE[:12], ["15 bytes", "found 0"]),
    (_WHOLE[:-1], ["15 bytes", "found 14"]),
    (_WHOLE + b"x", ["15 bytes", "more"]),
    # A damaged size must not make the reader allocate memory.
    (b"\0\0\x08\x03" + b"\xff" * 12 + b"12345", ["found 5"]),
    (b"PK\3\4....", ["damaged"]),
    (b"\0\0\7\1\0\0\0\0", ["not an idx file"]),
    (image_data.idx_bytes(np.ones(5, np.uint8)), ["1 axes", "expected 2"]),
  ],
)
def test_wrong_content(tmp_path, content, facts):
  path = tmp_path / "labels"
  path.write_bytes(content)
  with refused("labels", *facts):
    mnist.read_idx(path, 3 if content[3:4] == b"\3" else 2)
