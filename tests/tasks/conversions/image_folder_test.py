import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks.conversions import image_folder
from tasks.formats import example_proto


@pytest.fixture
def add(tmp_path):
  def write(name, shape=(2, 3, 3), value=7):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full(shape, value, np.uint8)
    path.write_bytes(tf.io.encode_png(image).numpy())

  return write


def _parsed(images, position):
  return example_proto.parse(images.serialized(position))


def test_classes_in_alphabetical_order(add, tmp_path):
  add("dog/1.png", value=1)
  add("cat/deep/2.PNG", value=2)
  add("cat/1.png", value=3)
  (tmp_path / "cat/notes.txt").write_text("no image")
  images = image_folder.images(tmp_path)
  assert (images.labels.tolist(), images.splits) == ([0, 0, 1], [])
  found = [_parsed(images, k) for k in range(3)]
  assert [e["image"].tolist() for e in found] == [[v] * 18 for v in (3, 2, 1)]
  assert [e["label"].tolist() for e in found] == [[0], [0], [1]]
  assert found[0]["shape"].tolist() == [2, 3, 3]


def test_halves(add, tmp_path):
  for name in (
    "train/a/1.png",
    "train/b/1.png",
    "test/a/1.png",
    "test/b/1.png",
  ):
    add(name)
  images = image_folder.images(tmp_path)
  assert images.labels.tolist() == [0, 1, 0, 1]
  assert images.splits == ["train", "train", "test", "test"]


def test_resized_and_grey(add, tmp_path):
  add("a/1.png", shape=(8, 6, 1), value=200)
  example = _parsed(image_folder.images(tmp_path, 4), 0)
  assert example["shape"].tolist() == [4, 4, 3]
  assert set(example["image"].tolist()) == {200}


def test_a_class_in_one_half_only(add, tmp_path):
  for name in ("train/a/1.png", "train/b/1.png", "test/a/1.png"):
    add(name)
  with pytest.raises(tasks.DataError, match="class b is not both"):
    image_folder.images(tmp_path)


def test_nothing_there(add, tmp_path):
  with pytest.raises(tasks.DataError, match="has no folders"):
    image_folder.images(tmp_path)
  add("a/1.png")
  (tmp_path / "b").mkdir()
  with pytest.raises(tasks.DataError, match="b: there is no image"):
    image_folder.images(tmp_path)


def test_no_image(add, tmp_path):
  add("a/1.png")
  content = (tmp_path / "a/1.png").read_bytes()
  for wrong in (b"", b"text", content[: len(content) // 2]):
    (tmp_path / "a/1.png").write_bytes(wrong)
    with pytest.raises(tasks.DataError, match=r"1\.png: is no image") as caught:
      _parsed(image_folder.images(tmp_path), 0)
    assert "\n" not in str(caught.value)
