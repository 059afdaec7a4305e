import numpy as np
import pytest

import tasks
from tests.refusals import refused

_NAME = "emnist_all.sqlite"


def _load(file, **options):
  return tasks.load(
    "emnist_character", data_dir=file.path.parent, **{"model": "mlp", **options}
  )


class TestMadeUpFile:
  def test_writers_in_order_without_incomplete_ones(self, emnist_file):
    task = _load(emnist_file)
    assert task.client_names == ("writer_a", "writer_b")
    assert task.train.num_examples.tolist() == [2, 3]
    assert task.test.num_examples.tolist() == [2, 1]
    assert task.description == (
      "EMNIST, 10 classes: 2 writers (1 without train or test examples left "
      "out), 5 train and 3 test examples"
    )

  def test_arrays_of_a_writer(self, emnist_file):
    x, y = _load(emnist_file).train.load(1)
    assert (x.dtype, x.shape) == (np.float32, (3, 28, 28, 1))
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, [3, 1, 4])
    np.testing.assert_array_equal(_load(emnist_file).test.load(0)[1], [6, 5])
    for position, label in enumerate(y):
      expected = emnist_file.image(label, position)[..., np.newaxis]
      np.testing.assert_array_equal(x[position], expected)

  def test_writers_with_no_examples_by_their_metadata(self, emnist_file):
    emnist_file.add("digits_only_train", "writer_d", [1])
    emnist_file.add("digits_only_test", "writer_d", [])
    assert "2 writers (2 without" in _load(emnist_file).description

  def test_sixty_two_classes(self, emnist_file):
    emnist_file.add("all_train", "writer_z", [61, 10])
    emnist_file.add("all_test", "writer_z", [36])
    task = _load(emnist_file, only_digits=False)
    assert task.num_classes == 62
    assert task.client_names == ("writer_z",)
    np.testing.assert_array_equal(task.train.load(0)[1], [61, 10])
    assert task.model_fn().trainable_variables[-1].shape == (62,)

  def test_clients_are_read_when_asked_for_and_kept(self, emnist_file):
    task = _load(emnist_file)
    first = task.train.load(0)
    emnist_file.execute("DELETE FROM examples")
    np.testing.assert_equal(task.train.load(0), first)
    with refused("client writer_b"):
      task.train_data(1)

  def test_some_of_the_writers(self, emnist_file):
    task = _load(emnist_file, num_clients=1)
    assert "1 of 2 writers (1 without" in task.description


class TestBadFile:
  def test_lacks_the_letters(self, emnist_file):
    with refused(
      _NAME,
      "all_test, all_train",
      "digits_only_test, digits_only_train",
      "only_digits=true",
    ):
      _load(emnist_file, only_digits=False)

  def test_no_writer_has_both_halves(self, emnist_file):
    emnist_file.execute(
      "UPDATE client_metadata SET client_id = split_name || client_id"
    )
    with refused(_NAME, "5 writers"):
      _load(emnist_file)

  @pytest.mark.parametrize(
    ("example", "facts"),
    [
      ({"labels": [10]}, ["label 10", "0 to 9"]),
      ({"labels": [-1, 2], "pixels": np.ones([28, 28])}, ["label -1"]),
      (
        {"labels": [1], "pixels": np.full([28, 28], 255.0)},
        ["255.0 to 255.0", "0 to 1"],
      ),
      ({"labels": [1], "pixels": np.full([28, 28], np.nan)}, ["nan"]),
      ({"labels": [1], "pixels": np.zeros([27, 28])}, ["Key: pixels"]),
      ({"labels": [1, 2], "num_examples": 3}, ["2 examples", "expected 3"]),
      ({"labels": [], "num_examples": 3}, ["0 examples", "expected 3"]),
    ],
  )
  def test_bad_examples(self, emnist_file, example, facts):
    emnist_file.add("digits_only_train", "bad_writer", **example)
    emnist_file.add("digits_only_test", "bad_writer", [1])
    task = _load(emnist_file)
    assert task.client_names[0] == "bad_writer"
    with refused(
      f"{_NAME}, split digits_only_train, client bad_writer", *facts
    ):
      task.train_data(0)
    # Other clients are not affected.
    task.test_data(0)
    task.train_data(1)

  def test_example_is_no_protocol_buffer(self, emnist_file):
    emnist_file.execute("UPDATE examples SET serialized_example_proto = 'x'")
    with refused("split digits_only_train, client writer_a"):
      _load(emnist_file).train_data(0)


def test_synthetic_needs_no_file():
  task = tasks.load("emnist_character", synthetic=True)
  assert task.description.startswith("synthetic test images, 10 classes")
  assert task.client_names == ("synthetic1", "synthetic2")
  np.testing.assert_array_equal(task.train.load(0)[1], range(10))


def test_real_file(real):
  directory = real(f"tff_cache/{_NAME}").parent
  task = tasks.load("emnist_character", data_dir=directory)
  assert task.num_clients == 100
  assert task.train.num_examples.sum() == 8802
  assert task.test.num_examples.sum() == 2197
  assert list(task.client_names) == sorted(task.client_names)
  labels = set()
  for client_id in range(0, 100, 10):
    for split in (task.train, task.test):
      x, y = split.load(client_id)
      assert x.shape == (split.num_examples[client_id], 28, 28, 1)
      # As in TFF's data, ink is dark, and the background is 1.
      assert x.mean() > 0.5
      labels |= {*y.tolist()}
  assert labels == set(range(10))
