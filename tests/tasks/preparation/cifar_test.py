import pickle

import numpy as np
import pytest

import tasks
from tasks.preparation import cifar, example_proto

CIFAR10 = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]


def _pixels(size):
  return np.arange(size * 3072).reshape(size, 3072).astype(np.uint8)


def _pickled(**content):
  # Protocol 2 with bytes for names, as Python 2 wrote it.
  return pickle.dumps({k.encode(): v for k, v in content.items()}, protocol=2)


@pytest.fixture(params=["pickle", "binary"])
def cifar10(request, tmp_path):
  labels = [3, 9]
  for name in CIFAR10:
    if request.param == "pickle":
      content = _pickled(data=_pixels(2), labels=labels, batch_label=b"x")
      (tmp_path / name).write_bytes(content)
    else:
      rows = np.column_stack([np.array(labels, np.uint8), _pixels(2)])
      (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
  return tmp_path


@pytest.fixture(params=["pickle", "binary"])
def cifar100(request, tmp_path):
  fine, coarse = [99, 4, 5], [19, 0, 1]
  for name in ("train", "test"):
    if request.param == "pickle":
      content = _pickled(
        data=_pixels(3), fine_labels=fine, coarse_labels=coarse
      )
      (tmp_path / name).write_bytes(content)
    else:
      rows = np.column_stack(
        [np.array(coarse, np.uint8), np.array(fine, np.uint8), _pixels(3)]
      )
      (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
  return tmp_path


def test_cifar10(cifar10):
  assert cifar.filename(cifar10) == "cifar10.sqlite"
  assert len(cifar.files(cifar10)) == 6
  images = cifar.images(cifar10)
  assert images.labels.tolist() == [3, 9] * 6
  assert images.splits == ["train"] * 10 + ["test"] * 2
  example = example_proto.parse(images.serialized(1))
  assert example["label"].tolist() == [9]
  # Planes of red, green and blue become pixels.
  image = example["image"].reshape(32, 32, 3)
  np.testing.assert_array_equal(
    image, np.moveaxis(_pixels(2)[1].reshape(3, 32, 32), 0, -1)
  )


def test_cifar100(cifar100):
  assert cifar.filename(cifar100) == "cifar100.sqlite"
  images = cifar.images(cifar100)
  assert images.labels.tolist() == [99, 4, 5] * 2
  example = example_proto.parse(images.serialized(3))
  assert example["label"].tolist() == [99]
  assert example["coarse_label"].tolist() == [19]


def test_a_missing_batch(cifar10):
  next(cifar10.glob("data_batch_4*")).unlink()
  with pytest.raises(tasks.DataError, match="holds neither all batches"):
    cifar.images(cifar10)


class _Malicious:
  def __reduce__(self):
    return (open, ("/dev/null",))


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (_pickled(data=_Malicious()), "would call .*open"),
    (_pickled(data=_pixels(1), labels=[1])[:-5], "no pickle .*or truncated"),
    (b"", "no pickle"),
    (b"<html>", "no pickle"),
    (pickle.dumps(3), "expected data and labels"),
    (_pickled(data=_pixels(1)), "expected data and labels"),
    (_pickled(data=_pixels(1), labels=["cat"]), "expected data and labels"),
    (_pickled(data=_pixels(1), labels=[1, 2]), r"uint8\[1, 3072\], expected"),
    (_pickled(data=_pixels(1) / 255, labels=[1]), r"float64\[1, 3072\]"),
    (_pickled(data=_pixels(1), labels=1), "holds data"),
    (_pickled(data=_pixels(2), labels=[1, 10]), "label 10 of example 1"),
    (_pickled(data=_pixels(2), labels=[-1, 0]), "label -1 of example 0"),
  ],
)
def test_wrong_pickles(tmp_path, content, message):
  path = tmp_path / "test_batch"
  path.write_bytes(content)
  with pytest.raises(tasks.DataError, match=f"test_batch: .*{message}"):
    cifar.read_batch(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 3072, b"\0" * 3074])
def test_truncated_binary(tmp_path, content):
  path = tmp_path / "test_batch.bin"
  path.write_bytes(content)
  with pytest.raises(tasks.DataError, match="expected a multiple of 3,073"):
    cifar.read_batch(path)


def test_label_out_of_range_in_binary(tmp_path):
  path = tmp_path / "test_batch.bin"
  path.write_bytes(b"\x0a" + b"\0" * 3072)
  with pytest.raises(tasks.DataError, match="label 10 of example 0"):
    cifar.read_batch(path)
