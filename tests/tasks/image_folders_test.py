"""Tests of the tasks whose images stay on disk."""

import pathlib
from collections.abc import Callable

import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import image_data

_WRITE: dict[str, Callable[[pathlib.Path], None]] = {
  "cinic10": image_data.write_cinic10,
  "tiny_imagenet": image_data.write_tiny_imagenet,
  "clothing1m": image_data.write_clothing1m,
}
_SIZES = {"cinic10": 32, "tiny_imagenet": 64, "clothing1m": 16}


def _load(name, directory, **options):
  more = {"image_size": 16} if name == "clothing1m" else {}
  options = {"num_clients": 3, "model": "linear", **more, **options}
  return tasks.load(name, data_dir=directory, **options)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
  found = {}
  for name, write in _WRITE.items():
    found[name] = tmp_path_factory.mktemp(name)
    write(found[name])
  return found


@pytest.mark.parametrize(
  ("name", "num_train", "num_test"),
  [("cinic10", 80, 40), ("tiny_imagenet", 18, 6), ("clothing1m", 56, 28)],
)
def test_images_and_labels_belong_together(
  directories, name, num_train, num_test
):
  task = _load(name, directories[name], partition="iid", test_data="published")
  assert task.train.num_examples.sum() == num_train
  assert task.test.num_examples.sum() == num_test
  for split in (task.train, task.test):
    for k in range(task.num_clients):
      x, y = split.load(k)
      assert x.dtype == np.float32
      assert x.shape[1:] == (_SIZES[name], _SIZES[name], 3)
      # JPEG may be off by one; the last decimal digit is the image's number.
      labels = np.rint(255 * x[:, 5, 5, 0]) // 10
      np.testing.assert_allclose(labels, y, atol=1 if name != "cinic10" else 0)


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
  image_data.write_cinic10(tmp_path)
  task = _load("cinic10", tmp_path, partition="iid")
  for path in tmp_path.rglob("*.png"):
    path.write_bytes(b"no image")
  with refused(".png", "image"):
    task.train_data(0)


class TestCinic10:
  def test_papers_cut(self, directories):
    task = _load("cinic10", directories["cinic10"])
    halves = task.train.num_examples, task.test.num_examples
    np.testing.assert_allclose(*halves, atol=1)

  def test_folder_missing(self, tmp_path):
    with refused(tmp_path / "train/airplane", "No such file"):
      _load("cinic10", tmp_path)

  def test_folder_empty(self, tmp_path):
    image_data.write_cinic10(tmp_path, per_class=1)
    (tmp_path / "valid/cat/valid-0.png").unlink()
    with refused(tmp_path / "valid/cat", "images"):
      _load("cinic10", tmp_path)

  def test_image_of_another_size(self, tmp_path):
    image_data.write_cinic10(tmp_path, per_class=1)
    image_data.write_image(tmp_path / "train/cat/train-0.png", 33, 0)
    task = _load("cinic10", tmp_path, num_clients=1, test_data="published")
    with refused("cat/train-0.png", "33 x 33", "32 x 32"):
      task.train_data(0)


class TestTinyImagenet:
  @pytest.mark.parametrize(
    ("content", "place", "fact"),
    [
      (b"val_0.JPEG\tn01\t0\nval_1.JPEG\tn09\t0\n", ", line 2", "n09"),
      (b"val_0.JPEG n01\n", ", line 1", "n01"),
      (b"\n", "", "no images"),
      (b"\xff\t1\n", ", line 1", "UTF-8"),
    ],
  )
  def test_bad_lists(self, tmp_path, content, place, fact):
    image_data.write_tiny_imagenet(tmp_path)
    folder = tmp_path / "tiny-imagenet-200"
    (folder / "val/val_annotations.txt").write_bytes(content)
    with refused(f"val_annotations.txt{place}", fact):
      _load("tiny_imagenet", tmp_path)
    (folder / "wnids.txt").write_text("n01\nn04\n")
    with refused("train/n04/images", "No such file"):
      _load("tiny_imagenet", tmp_path)

  def test_folder_itself(self, directories):
    root = directories["tiny_imagenet"] / "tiny-imagenet-200"
    assert _load("tiny_imagenet", root, min_size=0).num_classes == 3

  def test_nothing_there(self, tmp_path):
    with refused("wnids.txt", "No such file"):
      _load("tiny_imagenet", tmp_path)


class TestClothing1m:
  def test_lists_in_their_folder(self, tmp_path):
    image_data.write_clothing1m(tmp_path)
    (tmp_path / "annotations").mkdir()
    for path in list(tmp_path.glob("*.txt")):
      path.rename(tmp_path / "annotations" / path.name)
    assert _load("clothing1m", tmp_path).num_classes == 14

  @pytest.mark.parametrize(
    ("label", "place", "fact"),
    [
      (" 14", "noisy_label_kv.txt, line 1", "0 to 13"),
      ("", "noisy_label_kv.txt, line 1", "0 to 13"),
      (" 1", "noisy_train_key_list.txt, line 1", "noisy_label_kv.txt"),
    ],
  )
  def test_bad_labels(self, tmp_path, label, place, fact):
    image_data.write_clothing1m(tmp_path)
    (tmp_path / "noisy_label_kv.txt").write_text(f"images/0/a.jpg{label}\n")
    with refused(tmp_path / place, fact):
      _load("clothing1m", tmp_path)

  def test_an_empty_list(self, tmp_path):
    image_data.write_clothing1m(tmp_path)
    (tmp_path / "clean_test_key_list.txt").write_text("")
    with refused(tmp_path / "clean_test_key_list.txt", "no images"):
      _load("clothing1m", tmp_path)

  def test_image_missing(self, tmp_path):
    image_data.write_clothing1m(tmp_path)
    task = _load("clothing1m", tmp_path, num_clients=1)
    (tmp_path / "images/0/noisy_train,2.jpg").unlink()
    with refused("noisy_train,2.jpg", "read: No such file"):
      task.train_data(0)


@pytest.mark.parametrize("name", ["cinic10", "tiny_imagenet"])
def test_files_that_are_left_out_are_counted(name, tmp_path):
  _WRITE[name](tmp_path)
  image = next(path for path in sorted(tmp_path.rglob("train/**/*.*")))
  for ending in (".webp", ".WEBP", ".txt"):
    image.with_suffix(ending).write_bytes(b"")
  with pytest.warns(UserWarning, match=r"files: 3 \(2 \.webp, 1 \.txt\)"):
    _load(name, tmp_path)
