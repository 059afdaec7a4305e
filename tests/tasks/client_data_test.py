"""Tests of the task `client_data` with images and vectors in TFF's format."""

import sqlite3

import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import client_files


def load(path, examples, *, splits=("train", "test"), **options):
  client_files.write(path / "some.sqlite", examples, splits)
  return tasks.load("client_data", data_dir=path, file="some.sqlite", **options)


def vectors(y):
  return [
    {"x": np.array([0.5, k, -k]), "y": value} for k, value in enumerate(y)
  ]


@pytest.mark.parametrize("channels", [1, 3])
def test_images(tmp_path, channels):
  task = load(tmp_path, client_files.images(channels=channels))
  assert task.client_names == ["north", "south"]
  assert task.num_classes == 2
  x, y = task.test.load(1)
  assert (x.shape, x.dtype, y.dtype) == (
    (4, 2, 2, channels),
    np.float32,
    np.int32,
  )
  np.testing.assert_allclose(x[:, 1, 1, 0] * 255, [0, 2, 4, 6], rtol=1e-6)
  assert y.tolist() == [0, 1, 0, 1]
  assert "some.sqlite, x 2x2" in task.description


def test_vectors_and_the_shape_of_x(tmp_path):
  examples = vectors(map(np.int64, [0, 1, 2, 1]))
  x, y = load(tmp_path, examples, model="mlp_128").train.load(0)
  np.testing.assert_array_equal(x[:, 1], range(4))
  assert y.tolist() == [0, 1, 2, 1]
  task = load(tmp_path, examples, shape="3x1")
  assert task.element_spec[0].shape == [None, 3, 1, 1]


def test_what_is_left_out_is_counted(tmp_path):
  examples = vectors(map(np.int64, [0, 1, 2, 1]))
  load(tmp_path, examples, splits=("train", "test", "heldout"))
  path = tmp_path / "some.sqlite"
  with sqlite3.connect(path) as connection:
    connection.execute(
      "DELETE FROM client_metadata WHERE client_id = 'north' AND split_name = "
      "'test'"
    )
  connection.close()
  task = tasks.load("client_data", file=str(path))
  assert (
    "(1 clients in only one half and the splits heldout left out)"
    in task.description
  )


def test_a_file_may_say_the_shape(tmp_path):
  examples = [
    {**image, "shape": np.array([1, 12, 1])} for image in client_files.images()
  ]
  task = load(tmp_path, examples)
  assert task.element_spec[0].shape == [None, 1, 12, 1]
  other = load(tmp_path, examples, shape="12x1")
  assert other.element_spec[0].shape == [None, 12, 1, 1]


def test_numbers_to_predict(tmp_path):
  task = load(tmp_path, vectors(map(np.float64, [0.5, 1, 2.5, 0])), model="mlp")
  assert task.num_classes is None
  assert task.train.load(0)[1].tolist() == [0.5, 1, 2.5, 0]
  assert task.keras_model_fn().output_shape == (None, 1)


def test_a_model_of_images(tmp_path):
  task = load(tmp_path, client_files.images(side=8), model="cnn")
  assert task.keras_model_fn().output_shape == (None, 2)


@pytest.mark.parametrize(
  ("examples", "options", "problem"),
  [
    (client_files.images(), {"shape": "3x3"}, "image has 12 numbers"),
    (client_files.images(), {"shape": "3"}, "shape"),
    ([{"x": np.array([1.0, 2])}] * 3, {}, "one label"),
    ([{"text": b"a", "y": np.int64(1)}] * 3, {}, "one feature of numbers"),
    (client_files.images(), {"splits": ("train",)}, "test"),
    (vectors(map(np.int64, [0, 1, 2])), {"model": "cnn"}, "^model=.cnn.: "),
    (
      vectors(map(np.float64, [0, 1.5])),
      {"model": "mlp_double_softmax"},
      "^model=.mlp_double_softmax.: ",
    ),
  ],
)
def test_examples_that_make_no_task_are_refused(
  tmp_path, examples, options, problem
):
  with pytest.raises(ValueError, match=problem):
    load(tmp_path, examples, **options)


def test_a_file_of_another_kind_is_refused(tmp_path):
  (tmp_path / "some.sqlite").write_bytes(b"PK")
  with refused("some.sqlite", "SQLite") as error:
    tasks.load("client_data", data_dir=tmp_path, file="some.sqlite")
  assert error.value.setting == "file"
