"""Tests of reading batches of CIFAR, whole and damaged."""

import pickle

import numpy as np
import pytest

from tasks.formats import cifar
from tests.refusals import refused
from tests.tasks.image_data import cifar_pixels, pickled


class _Malicious:
  def __reduce__(self):
    return (open, ("/dev/null",))


def _rows(*labels):
  rows = np.zeros([len(labels), 3073], np.uint8)
  rows[:, 0] = labels
  return rows.tobytes()


@pytest.mark.parametrize(
  ("changes", "facts"),
  [
    ({"data": _Malicious()}, ["would call", "open"]),
    ({"labels": None}, ["data and labels"]),
    ({"labels": ["cat"]}, ["data and labels"]),
    ({"labels": [1, 2]}, ["uint8[1, 3072]", "uint8[2, 3072]"]),
    ({"labels": 1}, ["uint8[1, 3072]"]),
    ({"data": cifar_pixels(1) / 255}, ["float64[1, 3072]"]),
    ({"labels": [10]}, ["example 0 ", "label 10"]),
    ({"data": cifar_pixels(2), "labels": [0, -1]}, ["example 1 ", "label -1"]),
  ],
)
def test_wrong_batches(tmp_path, changes, facts):
  content = {"data": cifar_pixels(1), "labels": [1], **changes}
  found = {k: v for k, v in content.items() if v is not None}
  path = tmp_path / "test_batch"
  path.write_bytes(pickled(**found))
  with refused(path, *facts):
    cifar.read_batch(path)


@pytest.mark.parametrize(
  ("name", "content", "facts"),
  [
    ("test_batch", b"<html>", ["not a pickle"]),
    ("test_batch", pickle.dumps(3), ["data and labels"]),
    ("test_batch", pickle.dumps(np.zeros(3)), ["data and labels"]),
    ("test_batch.bin", _rows(1)[:-1], ["3,073", "3,072"]),
    ("test_batch.bin", _rows(1) + b"\0", ["3,073", "3,074"]),
    ("test_batch.bin", _rows(1, 10), ["example 1 ", "label 10"]),
    ("other", b"", ["name"]),
  ],
)
def test_wrong_content(tmp_path, name, content, facts):
  path = tmp_path / name
  path.write_bytes(content)
  with refused(name, *facts):
    cifar.read_batch(path)
