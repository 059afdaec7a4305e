import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import image_data


def _load(directory, **options):
  options = {"num_clients": 5, "model": "linear", **options}
  return tasks.load("femnist_skewed", data_dir=directory, **options)


def test_letters_of_emnist_byclass(tmp_path):
  image_data.write_emnist_byclass(tmp_path)
  task = _load(tmp_path)
  assert task.num_classes == 10
  for split in (task.train, task.test):
    for k in range(task.num_clients):
      x, y = split.load(k)
      assert x.shape[1:] == (28, 28, 1)
      # As in TFF's data, the background is 1; images are stored row by row.
      pixels = np.rint(255 - 255 * x[..., 0]).astype(int)
      np.testing.assert_array_equal(pixels[:, 0, 0], y + 36)
      np.testing.assert_array_equal(pixels[:, 3, 2], 255)
      np.testing.assert_array_equal(pixels[:, 2, 3], 0)
  assert all(len(set(task.train.load(k)[1])) == 5 for k in range(5))


class TestNative:
  @pytest.fixture
  def file(self, emnist_file):
    emnist_file.add("all_train", "w1", [36, 45, 46, 35])
    emnist_file.add("all_train", "w2", [0, 61])
    emnist_file.add("all_train", "w3", [40])
    emnist_file.add("all_test", "w1", [36, 40, 45, 9])
    return emnist_file

  def test_letters_of_all_writers(self, file):
    task = _load(file.path.parent, partition="iid", num_clients=1)
    x, y = task.train.load(0)
    assert sorted(y) == [0, 4, 9]
    assert sorted(task.test.load(0)[1]) == [0, 4, 9]
    expected = file.image(36, 0)[..., np.newaxis]
    np.testing.assert_allclose(
      x[list(y).index(0)], expected, atol=0.5 / 255 + 1e-6
    )

  def test_by_writer(self, file):
    task = _load(file.path.parent, partition="users", num_clients=None)
    # The writer without these letters is not a client.
    assert task.client_names == ("w1", "w3")

  def test_no_letters(self, emnist_file):
    with refused(emnist_file.path, "all_test, all_train", "letters"):
      _load(emnist_file.path.parent)

  def test_none_of_the_letters(self, emnist_file):
    for split in ("all_train", "all_test"):
      emnist_file.add(split, "w1", [0, 61])
    with refused("split all_train", "no images"):
      _load(emnist_file.path.parent)

  def test_pixels_out_of_range(self, file):
    file.add("all_train", "w0", [36], pixels=np.full([28, 28], 1.5))
    with refused("client w0", "1.5 to 1.5"):
      _load(file.path.parent)
