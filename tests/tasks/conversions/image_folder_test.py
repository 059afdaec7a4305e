import re

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks.conversions import image_sets
from tasks.formats import example_proto
from tests.refusals import refused


@pytest.fixture
def add(tmp_path):
  def write(*names, shape=(2, 3, 3), value=7):
    image = tf.io.encode_png(np.full(shape, value, np.uint8)).numpy()
    for name in names:
      path = tmp_path / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(image)

  return write


def _parsed(images, position):
  return example_proto.parse(images.serialized(position))


def test_classes_in_alphabetical_order(add, tmp_path):
  add("dog/1.png", value=1)
  add("cat/2.PNG", value=2)
  add("cat/1.png", value=3)
  (tmp_path / "cat/notes.txt").write_text("no image")
  images = image_sets.folder_images(tmp_path)
  assert (images.labels.tolist(), images.splits) == ([0, 0, 1], [])
  found = [_parsed(images, k) for k in range(3)]
  assert [e["image"].tolist() for e in found] == [[v] * 18 for v in (3, 2, 1)]
  assert (images.classes, images.clients) == (["cat", "dog"], [])
  assert [e["label"].tolist() for e in found] == [[0], [0], [1]]
  assert found[0]["shape"].tolist() == [2, 3, 3]


def test_what_is_left_out_is_counted(add, tmp_path):
  add("train/n/1.png", "train/n/2.png", "test/n/1.png", "test/s/1.png")
  add("train/n/3.webp", "train/n/4.WEBP", "test/n/.hidden.webp", "old/n/5.png")
  add("notes.txt", "train/README")
  for half in ("train", "test"):
    rows = "n/1.png,a\nn/2.png,b\ns/1.png,b\nn/3.webp,a\n"
    (tmp_path / half / "labels.csv").write_text(f"file,label\n{rows}")
  images = image_sets.folder_images(tmp_path)
  assert len(images.labels) == 4
  counts = {
    reason.partition(",")[0]: n for reason, n in images.left_out.items()
  }
  of_labels = "row of labels.csv whose file is not an image there"
  assert counts == {
    "file .webp": 2,
    "file .png": 1,
    "file .txt": 1,
    "file README": 1,
    of_labels: 4,  # Two in train, two in test.
  }


def test_halves(add, tmp_path):
  add("train/a/1.png", "train/b/1.png", "test/a/1.png")
  with refused(tmp_path, "class b"):
    image_sets.folder_images(tmp_path)
  add("test/b/1.png")
  images = image_sets.folder_images(tmp_path)
  assert images.labels.tolist() == [0, 1, 0, 1]
  assert images.splits == ["train", "train", "test", "test"]


def test_resized_and_grey(add, tmp_path):
  add("a/1.png", shape=(8, 6, 1), value=200)
  example = _parsed(image_sets.folder_images(tmp_path, 4), 0)
  assert example["shape"].tolist() == [4, 4, 3]
  assert set(example["image"].tolist()) == {200}


def test_folders_of_clients_which_may_lack_classes_in_a_half(add, tmp_path):
  add("train/n/b/1.png", "train/n/a/1.png", "test/n/b/1.png", "test/s/c/1.png")
  images = image_sets.folder_images(tmp_path)
  assert images.clients == ["n", "n", "n", "s"]
  assert images.classes == ["a", "b", "c"]
  assert images.labels.tolist() == [0, 1, 1, 2]
  assert images.splits == ["train", "train", "test", "test"]


def test_a_table_of_labels(add, tmp_path):
  add("north/1.png", "north/2.png", "south/1.png")
  table = tmp_path / "labels.csv"
  table.write_text("label;file\n7;north/1.png\n07;north/2.png\n7;south/1.png\n")
  images = image_sets.folder_images(tmp_path)
  assert images.clients == ["north", "north", "south"]
  assert images.classes == ["07", "7"]
  assert images.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
  ("table", "place", "fact"),
  [
    ("file,label\nn/1.png,a\n", "labels.csv", "n/2.png"),
    ("file,class\nn/1.png,a\n", "labels.csv", "'label'"),
    ("", "labels.csv", "nothing"),
    (
      "file,label\nn/1.png,a\nn/1.png,b\n",
      "labels.csv, line 3 (the header counts)",
      "n/1.png",
    ),
    ("file,label\nn/1.png,\n", "labels.csv", "column 'label', line 2 "),
    ("file,label\nn/1.png\n", "labels.csv", "line 2 has 1 field"),
  ],
)
def test_tables_of_labels_that_are_not_right(add, tmp_path, table, place, fact):
  add("n/1.png", "n/2.png")
  (tmp_path / "labels.csv").write_text(table)
  with refused(place, fact):
    image_sets.folder_images(tmp_path)


@pytest.mark.parametrize(
  "names",
  [
    ["a/1.png", "b/c/1.png"],
    ["a/b/c/1.png"],
    ["train/a/1.png", "test/n/a/1.png"],
  ],
)
def test_images_that_lie_in_another_way(add, tmp_path, names):
  add(*names)
  with pytest.raises(tasks.DataError, match=re.escape(str(tmp_path))):
    image_sets.folder_images(tmp_path)


def test_nothing_there(add, tmp_path):
  with refused(tmp_path, "CLASS/IMAGE"):
    image_sets.folder_images(tmp_path)
  add("a/1.png")
  (tmp_path / "b").mkdir()
  with refused(tmp_path / "b", "no image"):
    image_sets.folder_images(tmp_path)


def test_no_image(add, tmp_path):
  add("a/1.png")
  content = (tmp_path / "a/1.png").read_bytes()
  for wrong in (b"", b"text", content[: len(content) // 2]):
    (tmp_path / "a/1.png").write_bytes(wrong)
    with refused("1.png", "not an image"):
      _parsed(image_sets.folder_images(tmp_path), 0)
