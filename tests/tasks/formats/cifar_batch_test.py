import pickle

import numpy as np
import pytest

import tasks
from tasks.formats import cifar_batch
from tests.tasks.formats.cifar_files import pickled, pixels


class _Malicious:
  def __reduce__(self):
    return (open, ("/dev/null",))


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (pickled(data=_Malicious()), "would call .*open"),
    (pickled(data=pixels(1), labels=[1])[:-5], "no pickle .*or truncated"),
    (b"", "no pickle"),
    (b"<html>", "no pickle"),
    (pickle.dumps(3), "expected data and labels"),
    (pickle.dumps(np.zeros(3)), "expected data and labels"),
    (pickled(data=pixels(1)), "expected data and labels"),
    (pickled(data=pixels(1), labels=["cat"]), "expected data and labels"),
    (pickled(data=pixels(1), labels=[1, 2]), r"uint8\[1, 3072\], expected"),
    (pickled(data=pixels(1) / 255, labels=[1]), r"float64\[1, 3072\]"),
    (pickled(data=pixels(1), labels=1), "holds data"),
    (pickled(data=pixels(2), labels=[1, 10]), "example 1 .*has label 10,"),
    (pickled(data=pixels(2), labels=[-1, 0]), "example 0 .*has label -1,"),
  ],
)
def test_wrong_pickles(tmp_path, content, message):
  path = tmp_path / "test_batch"
  path.write_bytes(content)
  with pytest.raises(tasks.DataError, match=f"test_batch: .*{message}"):
    cifar_batch.read(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 3072, b"\0" * 3074])
def test_truncated_binary(tmp_path, content):
  path = tmp_path / "test_batch.bin"
  path.write_bytes(content)
  with pytest.raises(tasks.DataError, match="expected a multiple of 3,073"):
    cifar_batch.read(path)


def test_label_out_of_range_in_binary(tmp_path):
  path = tmp_path / "test_batch.bin"
  path.write_bytes(b"\x0a" + b"\0" * 3072)
  with pytest.raises(tasks.DataError, match="has label 10,"):
    cifar_batch.read(path)
