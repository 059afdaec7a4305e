import numpy as np
import pytest

import tasks
from tests.tasks import image_data, native_file, several_clients


def _write_native(path, clients):
  """Writes {split: {client: labels}} in the format of TFF's file."""
  file = native_file.NativeFile(path)
  for split, names in clients.items():
    for name, labels in names.items():
      images = [np.full([32, 32, 3], 2 * label) for label in labels]
      file.add(
        split,
        name,
        [{"image": x, "label": y} for x, y in zip(images, labels, strict=True)],
      )


def test_central(tmp_path):
  image_data.write_cifar100(tmp_path)
  task = tasks.load(
    "cifar100", data_dir=tmp_path, num_clients=2, model="linear"
  )
  assert task.num_classes == 100
  _, y = several_clients.arrays(task.train)
  np.testing.assert_array_equal(np.sort(y), np.repeat(np.arange(100), 2))
  assert task.test.num_examples.sum() == 100


class TestNative:
  @pytest.fixture
  def directory(self, tmp_path):
    _write_native(
      tmp_path / "cifar100.sqlite",
      {
        "train": {"1": [5, 5, 7], "0": [7, 99], "2": [3]},
        "test": {"0": [5, 99, 7, 7, 8]},
      },
    )
    return tmp_path

  def _load(self, directory, **options):
    return tasks.load("cifar100", data_dir=directory, model="linear", **options)

  def test_clients_of_tff(self, directory):
    task = self._load(directory, partition="users", num_clients=None)
    # No client is tested on label 3, and none trains on label 8.
    assert task.client_names == ("0", "1")
    assert "(1 without train or test examples left out)" in task.description
    assert [sorted(task.train.load(k)[1]) for k in (0, 1)] == [
      [7, 99],
      [5, 5, 7],
    ]
    assert [sorted(task.test.load(k)[1]) for k in (0, 1)] == [[7, 99], [5, 7]]
    x, y = task.train.load(0)
    np.testing.assert_array_equal(np.rint(255 * x[:, 3, 4, 1]), 2 * y)

  def test_cut_anew(self, directory):
    task = self._load(
      directory, partition="iid", num_clients=2, test_data="pooled"
    )
    total = task.train.num_examples.sum() + task.test.num_examples.sum()
    assert total == 11
