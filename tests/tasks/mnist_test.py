import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import image_data, several_clients


@pytest.fixture
def directory(tmp_path):
  image_data.write_mnist(tmp_path)
  return tmp_path


def _load(directory, **options):
  options = {"num_clients": 10, "model": "linear", **options}
  return tasks.load("mnist", data_dir=directory, **options)


class TestMadeUpFiles:
  def test_images_and_labels_belong_together(self, directory):
    task = _load(directory)
    for split, count in ((task.train, 100), (task.test, 20)):
      x, y = several_clients.arrays(split)
      assert (x.dtype, x.shape) == (np.float32, (count, 28, 28, 1))
      assert y.dtype == np.int32
      pixels = np.rint(255 * x[..., 0]).astype(int)
      np.testing.assert_array_equal(pixels[:, 0, 0], y)
      # Each image occurs once.
      assert sorted(pixels[:, 0, 1]) == list(range(count))

  def test_unpacked_under_other_names_and_in_a_folder(self, tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    image_data.write_mnist(folder)
    for path in list(folder.glob("*-ubyte")):
      path.rename(folder / path.name.replace("-idx", ".idx"))
    assert _load(tmp_path).num_clients == 10

  def test_images_stay_bytes(self, directory):
    task = _load(directory)
    assert task.train.load(0)[0] is not task.train.load(0)[0]

  def test_standardized_over_the_training_images(self, directory):
    x, _ = several_clients.arrays(_load(directory, pixels="standardized").train)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-4)

  def test_by_writer(self, directory):
    train = [(k % 10, 200 + k % 3) for k in range(100)]
    test = [(k % 10, 202 + k % 2) for k in range(30)]
    image_data.write_qmnist_labels(directory, train, test)
    options = {"partition": "users", "num_clients": None}
    pooled = _load(directory, test_data="pooled", **options)
    assert pooled.client_names == ("200", "201", "202", "203")
    total = pooled.train.num_examples + pooled.test.num_examples
    # QMNIST has 60,000 test rows, which is more than MNIST's test images.
    assert total.tolist() == [34, 33, 33 + 10, 10]
    one = _load(directory, test_data="local", partition="users", num_clients=2)
    assert one.num_clients == 2
    assert set(one.client_names) < {"200", "201", "202"}


class TestBadFiles:
  def test_no_directory_given(self):
    with refused("data_dir", "train-images-idx3-ubyte", "docs/tasks.md"):
      tasks.load("mnist")

  def test_nothing_there(self, tmp_path):
    with refused(tmp_path, "train-images-idx3-ubyte"):
      _load(tmp_path)

  def test_no_writers(self, directory):
    with refused(directory, "qmnist-train-labels-idx2-int"):
      _load(directory, partition="users")


def test_real_images(real):
  task = tasks.load("mnist", data_dir=real("mnist").parent)
  assert task.num_clients == 200
  assert set(task.train.num_examples) == {300}
  assert task.test.num_examples.sum() == 10_000
  writers = tasks.load(
    "mnist",
    data_dir=real("mnist"),
    partition="users",
    num_clients=None,
    test_data="local",
  )
  # One of QMNIST's 539 writers has a single digit in MNIST.
  assert 530 < writers.num_clients <= 539
