import numpy as np
import pytest

import tasks
from tests.refusals import refused, rejected
from tests.tasks import tabular_data


def _load(directory, **options):
  return tasks.load("leaf", data_dir=directory, **options)


@pytest.fixture
def folder(tmp_path):
  tabular_data.write_leaf(tmp_path)
  return tmp_path


class TestFolders:
  def test_train_and_test(self, folder):
    task = _load(folder)
    assert task.client_names == ("f_0", "f_1")
    assert task.train.num_examples.tolist() == [7, 6]
    assert task.test.num_examples.tolist() == [4, 3]
    assert task.num_classes == 3
    x, y = task.train.load(1)
    assert x.tolist() == [[k, 0.5, -1.0] for k in range(6)]
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert y.tolist() == [0, 1, 2, 0, 1, 2]

  def test_several_files(self, folder):
    tabular_data.write_json(
      folder / "train" / "more.json", {"g": tabular_data.vectors(2)}
    )
    task = _load(folder)
    assert (
      "2 users (0 with too few examples, 1 only in one of train and test left "
      "out)" in task.description
    )

  def test_one_folder_is_cut(self, folder):
    task = _load(folder / "train", test_fraction=0.5)
    assert task.train.num_examples.tolist() == [3, 3]
    assert task.test.num_examples.tolist() == [4, 3]
    again = _load(folder / "train", test_fraction=0.5)
    np.testing.assert_array_equal(task.train.load(0)[0], again.train.load(0)[0])

  def test_some_files(self, folder):
    tabular_data.write_json(
      folder / "train" / "other.json", {"f_0": tabular_data.vectors(9)}
    )
    (folder / "train" / "other.json.gz").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"files: 2 \(1 \.json, 1 \.gz\)"):
      task = _load(folder / "train", files="o*.json")
    assert task.client_names == ("f_0",)
    with refused(folder / "train", "p*.json"):
      _load(folder / "train", files="p*.json")

  def test_users_without_examples_are_left_out(self, folder):
    tabular_data.write_json(
      folder / "train" / "a.json", {"a": ([], []), "b": ([[1, 2, 3]], [0])}
    )
    task = _load(folder / "train")
    assert task.client_names == ("f_0", "f_1")
    assert "(2 with too few examples left out)" in task.description


class TestShapes:
  def test_images_of_vectors(self, tmp_path):
    x = np.arange(2 * 784).reshape(2, 784).tolist()
    tabular_data.write_json(tmp_path / "a.json", {"u": (x, [0, 1])})
    task = _load(tmp_path, image_shape="28x28", model="cnn")
    image, _ = task.train.load(0)
    assert image.shape == (1, 28, 28, 1)
    assert image[0, 0, 1, 0] - image[0, 0, 0, 0] == 1
    assert "x 28x28x1, 2 classes" in task.description
    with rejected("model", "784"):
      _load(tmp_path, model="cnn")
    with refused("a.json, user u", 784, "3x3x1", 9):
      _load(tmp_path, image_shape="3x3")

  def test_nested_lists(self, tmp_path):
    x = np.zeros([3, 4, 5]).tolist()
    tabular_data.write_json(tmp_path / "a.json", {"u": (x, [0, 1, 1])})
    assert _load(tmp_path).train.load(0)[0].shape == (2, 4, 5)

  @pytest.mark.parametrize("shape", ["28", "28x", "0x3", "1x2x3x4", "-1x3"])
  def test_rejects_shape(self, folder, shape):
    with rejected("image_shape", "28x28", value=shape):
      _load(folder, image_shape=shape)


class TestBadFiles:
  def _write(self, tmp_path, x, y):
    tabular_data.write_json(
      tmp_path / "a.json", {"good": tabular_data.vectors(3), "bad": (x, y)}
    )

  @pytest.mark.parametrize(
    ("x", "y", "facts"),
    [
      ([[1, 2], [1, 2]], [0, 1], ["(2,)", "(3,)"]),
      ([[1, 2], [1]], [0, 1], ["x must be numbers", "shape"]),
      ([["a", "b", "c"]], [0], ["x must be numbers"]),
      ([[1, 2, float("nan")]], [0], ["x has", "finite"]),
      ([[1, 2, 3]], [3], ["example 0 ", "label 3", "0 to 2"]),
      ([[1, 2, 3]], [-1], ["example 0 ", "label -1"]),
      ([[1, 2, 3]], [0.5], ["example 0 ", "label 0.5", "integer"]),
      ([[1, 2, 3]], ["cat"], ["labels must be numbers"]),
    ],
  )
  def test_examples(self, tmp_path, x, y, facts):
    self._write(tmp_path, x, y)
    with refused("a.json, user bad", *facts):
      _load(tmp_path, num_classes=3)

  def test_no_users(self, tmp_path):
    tabular_data.write_json(tmp_path / "a.json", {})
    with refused(tmp_path, "0 users"):
      _load(tmp_path)

  def test_a_user_is_in_one_file(self, tmp_path):
    for name in ("a.json", "b.json"):
      tabular_data.write_json(tmp_path / name, {"u": tabular_data.vectors(3)})
    with refused("b.json, user u", "a.json"):
      _load(tmp_path)

  def test_nothing_there(self, tmp_path):
    with refused(tmp_path, "*.json"):
      _load(tmp_path)
    with refused("data_dir", "JSON"):
      tasks.load("leaf")

  def test_one_half_only(self, folder):
    (folder / "test" / "data.json").unlink()
    with refused(folder / "test"):
      _load(folder)

  def test_halves_of_different_users(self, folder):
    tabular_data.write_json(
      folder / "test" / "data.json", {"x": tabular_data.vectors(3)}
    )
    with refused(folder, "3 users"):
      _load(folder)

  def test_one_class(self, tmp_path):
    tabular_data.write_json(tmp_path / "a.json", {"u": ([[1], [2]], [0, 0])})
    with refused(tmp_path, "num_classes"):
      _load(tmp_path)
    assert _load(tmp_path, num_classes=2).num_classes == 2


@pytest.mark.parametrize("kind", ["0_0", "0.5_0.5", "1_1", "iid"])
def test_real_files(real, kind):
  path = real(f"leaf_synthetic/fedprox_synthetic_{kind}_test.json")
  task = _load(path.parent, files=path.name)
  assert task.num_clients == 30
  assert task.num_classes == 10
  assert task.element_spec[0].shape == [None, 60]
