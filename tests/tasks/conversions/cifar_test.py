import numpy as np
import pytest

import tasks
from tasks.conversions import cifar
from tasks.formats import example_proto
from tests.tasks.formats.cifar_files import pickled, pixels

CIFAR10 = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]


@pytest.fixture(params=["pickle", "binary"])
def cifar10(request, tmp_path):
  labels = [3, 9]
  for name in CIFAR10:
    if request.param == "pickle":
      content = pickled(data=pixels(2), labels=labels, batch_label=b"x")
      (tmp_path / name).write_bytes(content)
    else:
      rows = np.column_stack([np.array(labels, np.uint8), pixels(2)])
      (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
  return tmp_path


@pytest.fixture(params=["pickle", "binary"])
def cifar100(request, tmp_path):
  fine, coarse = [99, 4, 5], [19, 0, 1]
  for name in ("train", "test"):
    if request.param == "pickle":
      content = pickled(data=pixels(3), fine_labels=fine, coarse_labels=coarse)
      (tmp_path / name).write_bytes(content)
    else:
      rows = np.column_stack(
        [np.array(coarse, np.uint8), np.array(fine, np.uint8), pixels(3)]
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
    image, np.moveaxis(pixels(2)[1].reshape(3, 32, 32), 0, -1)
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
