"""Tests of converting CIFAR and MNIST into client data."""

import numpy as np
import pytest

from tasks.conversions import image_sets
from tasks.conversions.image_sets import MNIST_TEST, MNIST_TRAIN
from tasks.formats import example_proto
from tests.refusals import refused
from tests.tasks import image_data

LABELS = "train-labels-idx1-ubyte"
WRITERS = "qmnist-train-labels-idx2-int"


@pytest.fixture(params=["pickle", "binary"])
def batch(request, tmp_path):
  """Returns a function that writes a batch of CIFAR, in one of two formats."""

  def write(name, size, **labels):
    pixels = image_data.cifar_pixels(size)
    if request.param == "pickle":
      content = image_data.pickled(data=pixels, batch_label=b"x", **labels)
      (tmp_path / name).write_bytes(content)
    else:
      rows = np.column_stack([*np.array([*labels.values()], np.uint8), pixels])
      (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
    return tmp_path

  return write


class TestCifar:
  @pytest.fixture
  def cifar10(self, batch):
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
      directory = batch(name, 2, labels=[3, 9])
    return directory

  def test_cifar10(self, cifar10):
    filename, images = image_sets.cifar_images(cifar10)
    assert filename == "cifar10.sqlite"
    assert images.labels.tolist() == [3, 9] * 6
    assert images.splits == ["train"] * 10 + ["test"] * 2
    example = example_proto.parse(images.serialized(1))
    assert example["label"].tolist() == [9]
    # Planes of red, green and blue become pixels.
    image = example["image"].reshape(32, 32, 3)
    planes = image_data.cifar_pixels(2)[1].reshape(3, 32, 32)
    np.testing.assert_array_equal(image, np.moveaxis(planes, 0, -1))

  def test_cifar100(self, batch):
    for name in ("train", "test"):
      directory = batch(
        name, 3, coarse_labels=[19, 0, 1], fine_labels=[99, 4, 5]
      )
    filename, images = image_sets.cifar_images(directory)
    assert filename == "cifar100.sqlite"
    assert images.labels.tolist() == [99, 4, 5] * 2
    example = example_proto.parse(images.serialized(3))
    assert example["label"].tolist() == [99]
    assert example["coarse_label"].tolist() == [19]

  @pytest.mark.parametrize("missing", ["data_batch_1", "test_batch"])
  def test_other_folders(self, cifar10, missing):
    next(cifar10.glob(f"{missing}*")).unlink()
    with refused(cifar10, "CIFAR-10", "CIFAR-100"):
      image_sets.cifar_images(cifar10)


class TestMnist:
  @pytest.fixture
  def directory(self, tmp_path):
    return image_data.write_digits(tmp_path / "raw")

  def test_halves_are_pooled_by_writer(self, directory, convert):
    images = image_sets.mnist_images(directory)
    found = convert(
      image_sets.examples_by_client(images, keep_splits=False),
      train=MNIST_TRAIN,
      test=MNIST_TEST,
    )
    sizes = {
      writer: len(examples) + len(found[MNIST_TEST][writer])
      for writer, examples in found[MNIST_TRAIN].items()
    }
    assert sizes == {
      "nist_writer_0001": 10,
      "nist_writer_0002": 14,
      "nist_writer_0003": 13,
      "nist_writer_0004": 3,
    }

  def test_features(self, directory, convert):
    images = image_sets.mnist_images(directory)
    found = convert(image_sets.examples_by_client(images, keep_splits=True))
    assert {s: len(writers) for s, writers in found.items()} == {
      MNIST_TRAIN: 3,
      MNIST_TEST: 3,
    }
    # The writer has every third digit; this is the second one, number 4.
    example = found[MNIST_TRAIN]["nist_writer_0002"][1]
    assert example["label"].tolist() == [4]
    pixels = 255 - image_data.images_of(range(5))[4].ravel()
    np.testing.assert_array_equal(example["pixels"], np.float32(pixels) / 255)

  def test_halves_without_writers(self, tmp_path):
    directory = image_data.write_digits(tmp_path / "raw", writers=False)
    images = image_sets.mnist_images(directory)
    assert images.clients == []
    assert images.splits == [MNIST_TRAIN] * 30 + [MNIST_TEST] * 10
    assert images.labels.tolist() == [n % 10 for n in range(40)]

  @pytest.mark.parametrize(
    ("name", "array", "facts"),
    [
      (LABELS, np.ones(29, np.uint8), [30, 29]),
      (LABELS, np.uint8([*[1] * 29, 10]), ["example 29", "label 10"]),
      ("t10k-labels-idx1-ubyte", np.zeros(10, np.float32), [">f4", "bytes"]),
      ("t10k-images-idx3-ubyte", np.ones([10, 14, 14], np.uint8), ["28 x 28"]),
      (WRITERS, np.zeros([29, 8], np.int32), [29, 30]),
      (WRITERS, np.zeros([30, 2], np.int32), [30, 2]),
      # These labels differ from those of MNIST.
      (WRITERS, np.zeros([30, 8], np.int32), ["row 1 ", "MNIST's is 1"]),
    ],
  )
  def test_wrong_content(self, directory, name, array, facts):
    image_data.write_idx(directory / name, array)
    with refused(name, *facts):
      image_sets.mnist_images(directory)

  def test_missing_file(self, directory):
    (directory / "t10k-labels-idx1-ubyte").unlink()
    with refused(directory, "t10k-labels-idx1-ubyte"):
      image_sets.mnist_images(directory)
