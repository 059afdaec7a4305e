import numpy as np
import pytest

import tasks
from tasks.conversions import mnist
from tasks.formats import idx
from tests.tasks.formats.idx_files import idx_bytes, write_idx, write_mnist


class TestIdx:
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
  def test_round_trip(self, tmp_path, name, array):
    found = idx.read(write_idx(tmp_path / name, array), array.ndim)
    np.testing.assert_array_equal(found, array)
    assert found.shape == array.shape

  @pytest.mark.parametrize("kept", [0, 3, 4, 11, 12, -1])
  def test_truncated(self, tmp_path, kept):
    path = tmp_path / "labels"
    whole = idx_bytes(np.ones([5, 3], np.uint8))
    path.write_bytes(whole[:kept])
    with pytest.raises(
      tasks.DataError, match=r"labels: (is truncated|is no idx|expected 15 by)"
    ):
      idx.read(path)

  def test_too_long(self, tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.ones(5, np.uint8)) + b"x")
    with pytest.raises(tasks.DataError, match=r"expected 5 bytes.*found more"):
      idx.read(path)

  def test_a_damaged_size_takes_no_memory(self, tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(b"\0\0\x08\x03" + b"\xff" * 12 + b"12345")
    with pytest.raises(tasks.DataError, match="found 5"):
      idx.read(path)

  @pytest.mark.parametrize("content", [b"PK\3\4....", b"\0\0\7\1\0\0\0\0"])
  def test_other_files(self, tmp_path, content):
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(tasks.DataError, match="labels: is no idx file"):
      idx.read(path)

  def test_other_number_of_axes(self, tmp_path):
    path = write_idx(tmp_path / "labels", np.ones([2, 2], np.uint8))
    with pytest.raises(tasks.DataError, match="2 axes, expected 1"):
      idx.read(path, 1)


class TestByWriter:
  @pytest.mark.parametrize("suffix", ["", ".gz"])
  def test_halves_are_pooled_by_writer(self, tmp_path, convert, suffix):
    directory = write_mnist(tmp_path / "raw", suffix=suffix)
    assert mnist.has_writers(directory)
    found = convert(
      mnist.by_writer(directory, keep_splits=False),
      train=mnist.TRAIN,
      test=mnist.TEST,
    )
    sizes = {
      writer: len(examples) + len(found[mnist.TEST][writer])
      for writer, examples in found[mnist.TRAIN].items()
    }
    assert sizes == {
      "nist_writer_0001": 10,
      "nist_writer_0002": 14,
      "nist_writer_0003": 13,
      "nist_writer_0004": 3,
    }

  def test_features(self, tmp_path, convert):
    directory = write_mnist(tmp_path / "raw")
    found = convert(mnist.by_writer(directory, keep_splits=True))
    assert {s: len(writers) for s, writers in found.items()} == {
      mnist.TRAIN: 3,
      mnist.TEST: 3,
    }
    # The second training digit of the writer with every third: number 4 + 1.
    example = found[mnist.TRAIN]["nist_writer_0002"][1]
    assert example["label"].tolist() == [4]
    pixels = np.ones(784, np.float32)
    pixels[0] = np.float32(51) / 255
    np.testing.assert_array_equal(example["pixels"], pixels)

  def test_other_labels_than_mnist_s(self, tmp_path):
    directory = write_mnist(tmp_path / "raw")
    table = np.zeros([30, 8], np.int32)
    write_idx(directory / "qmnist-train-labels-idx2-int", table)
    with pytest.raises(
      tasks.DataError, match=r"qmnist-train.*row 1 .*label 0, but MNIST's is 1"
    ):
      list(mnist.by_writer(directory, keep_splits=False))

  @pytest.mark.parametrize("shape", [(29, 8), (30, 2)])
  def test_too_small_a_table(self, tmp_path, shape):
    directory = write_mnist(tmp_path / "raw")
    write_idx(
      directory / "qmnist-train-labels-idx2-int", np.zeros(shape, np.int32)
    )
    with pytest.raises(tasks.DataError, match="expected at least 30 rows"):
      list(mnist.by_writer(directory, keep_splits=False))


class TestImages:
  def test_halves(self, tmp_path):
    directory = write_mnist(tmp_path / "raw", writers=False)
    assert not mnist.has_writers(directory)
    images = mnist.images(directory)
    assert images.splits == [mnist.TRAIN] * 30 + [mnist.TEST] * 10
    assert images.labels.tolist() == [n % 10 for n in range(40)]

  def test_names_with_a_dot(self, tmp_path):
    directory = write_mnist(tmp_path / "raw")
    path = directory / "train-images-idx3-ubyte"
    path.rename(directory / "train-images.idx3-ubyte")
    assert len(mnist.images(directory).labels) == 40

  @pytest.mark.parametrize(
    ("name", "array", "message"),
    [
      (
        "train-labels-idx1-ubyte",
        np.ones(29, np.uint8),
        "29 labels, expected one for each of the 30",
      ),
      (
        "train-labels-idx1-ubyte",
        np.array([*[1] * 29, 10], np.uint8),
        r"example 29 .*has label 10, expected 0 to 9",
      ),
      ("t10k-images-idx3-ubyte", np.ones([10, 14, 14], np.uint8), "14, 14"),
    ],
  )
  def test_wrong_content(self, tmp_path, name, array, message):
    directory = write_mnist(tmp_path / "raw")
    write_idx(directory / name, array)
    with pytest.raises(tasks.DataError, match=rf"{name}: .*{message}"):
      mnist.images(directory)

  def test_missing_file(self, tmp_path):
    directory = write_mnist(tmp_path / "raw")
    (directory / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(tasks.DataError, match=r"t10k-labels.*no such file"):
      mnist.images(directory)
