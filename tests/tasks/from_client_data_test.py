"""Tests of building tasks from any `ClientData`."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks import models
from tests.refusals import refused
from tff_fair.declared import FieldError

CLIENT_DATA = tff.simulation.datasets


def of_arrays(sizes, y_dtype=np.int32, x_dtype=np.float32, shift=0, names="xy"):
  x, y = names
  return CLIENT_DATA.TestClientData(
    {
      name: collections.OrderedDict(
        {
          x: np.arange(size * 2).reshape(size, 2).astype(x_dtype),
          y: (np.arange(size) % 3 + shift).astype(y_dtype),
        }
      )
      for name, size in sizes.items()
    }
  )


TWO = of_arrays({"a": 2})


def of_function(element):
  """Returns clients a and b, each with four copies of an element."""
  return CLIENT_DATA.ClientData.from_clients_and_tf_fn(
    ["a", "b"], lambda _: tf.data.Dataset.from_tensors(element).repeat(4)
  )


def build(input_shape, num_classes):
  return models.mlp(tuple(input_shape), (), num_classes or 1, 0)


def test_classes():
  task = tasks.from_client_data(
    of_arrays({"a": 5, "b": 3, "c": 4}),
    of_arrays({"b": 2, "d": 1, "a": 1}),
    build,
    seed=3,
  )
  assert task.client_names == ["a", "b"]
  assert task.num_classes == 3
  assert task.train.num_examples.tolist() == [5, 3]
  assert task.test.num_examples.tolist() == [1, 2]
  assert "2 clients (2 without train or test examples left out)" in (
    task.description
  )
  x, y = task.train.load(0)
  np.testing.assert_array_equal(x, np.arange(10).reshape(5, 2))
  assert (x.dtype, y.dtype, y.tolist()) == (
    np.float32,
    np.int32,
    [0, 1, 2, 0, 1],
  )
  assert task.train_data(1).element_spec == task.element_spec
  model = task.model_fn()
  assert model.forward_pass(task.test.load(1)).predictions.shape == [2, 3]
  first, second = (task.keras_model_fn().get_weights() for _ in range(2))
  np.testing.assert_array_equal(first[0], second[0])


def test_numbers():
  train = of_arrays({"a": 3, "b": 3}, np.float64, np.float64, names=("x", "y"))
  task = tasks.from_client_data(train, train, build)
  assert task.num_classes is None
  x, y = task.test.load(1)
  assert (x.dtype, y.dtype) == (np.float32, np.float32)
  assert "left out" not in task.description
  model = task.model_fn()
  assert "mean_absolute_error" in model.report_local_unfinalized_metrics()


@pytest.mark.parametrize(
  "element",
  [
    (tf.ones([2, 2], tf.uint8), tf.constant(1, tf.int64)),
    {"pixels": tf.ones([2, 2], tf.uint8), "label": 1},
    {"y": 1, "x": tf.ones([2, 2], tf.uint8), "weight": 2.0},
  ],
)
def test_kinds_of_elements(element):
  data = of_function(element)
  task = tasks.from_client_data(data, data, build)
  x, y = task.train.load(1)
  assert (x.shape, x.dtype, y.tolist()) == ((4, 2, 2), np.uint8, [1] * 4)
  assert y.dtype == np.int32


def test_arguments_replace_what_the_labels_say():
  objective = models.class_objective()
  data = of_arrays({"a": 3})
  task = tasks.from_client_data(
    data, data, build, objective=objective, num_classes=7, name="mine"
  )
  assert (task.num_classes, task.name) == (7, "mine")
  assert task.objective is objective


def test_a_client_is_read_once_to_be_counted():
  reads = []

  class Data(tff.simulation.datasets.TestClientData):
    def create_tf_dataset_for_client(self, client_id):
      reads.append(client_id)
      return super().create_tf_dataset_for_client(client_id)

  arrays = {k: {"x": np.ones([2, 2], np.float32), "y": [0, 1]} for k in "ab"}
  data = Data(arrays)
  tasks.from_client_data(data, data, build)
  # Counting reads a client once per half; the first one also shows its
  # elements.
  assert reads.count("b") == 2


@pytest.mark.parametrize(
  ("train", "test", "facts"),
  [
    (TWO, of_arrays({"b": 2}), ["2 clients"]),
    (of_arrays({"a": 1}), None, ["num_classes"]),
    (TWO, of_arrays({"a": 2}, np.float32), ["float32", "int"]),
    (of_arrays({"a": 2}, names=("p", "q")), TWO, ["p", "q", "label"]),
    (of_function((tf.ones([2]), tf.ones([3, 3]))), None, ["(3, 3)"]),
    (of_function((tf.ones([2]), "a")), None, ["tf.string"]),
    (of_function((tf.ones([2]), True)), None, ["tf.bool"]),
    (TWO, {"a": (np.ones([2, 2]), [0, 1])}, ["TestClientData", "dict"]),
    (TWO, tf.data.Dataset.range(3), ["TestClientData", "Dataset"]),
    (tf.data.Dataset.range(3), None, ["Dataset", "ClientData"]),
    ([tf.data.Dataset.range(3)], None, ["list", "ClientData"]),
    ({"a": 3}, TWO, ["dict", "TestClientData"]),
  ],
)
def test_data_that_is_none_of_examples(train, test, facts):
  with refused("client_data", *facts):
    tasks.from_client_data(train, train if test is None else test, build)


@pytest.mark.parametrize(
  ("shift", "num_classes", "facts"),
  [
    (-1, 3, ["label -1", "0 to 2"]),
    (-1, None, ["label -1", "0 to 2"]),
    (1, 3, ["label 3", "num_classes=4"]),
  ],
)
def test_labels_out_of_range_are_named(shift, num_classes, facts):
  good = of_arrays({"a": 3, "b": 3})
  wrong = of_arrays({"b": 3}, shift=shift)
  with refused("client_data, test, client b", *facts):
    tasks.from_client_data(good, wrong, build, num_classes=num_classes)


def test_several_numbers_as_label():
  data = of_function((tf.ones([2]), tf.constant([1.0, 2.0, 3.0])))
  task = tasks.from_client_data(
    data,
    data,
    lambda: tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))]),
  )
  assert task.element_spec[1].shape == [None, 3]
  with pytest.raises(FieldError, match="n, 3"):
    tasks.from_client_data(data, data, build)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_column_of_labels_is_one_label_an_example(dtype):
  def element(y):
    return of_function((tf.ones([2]), tf.constant(y, dtype)))

  column, plain = (
    tasks.from_client_data(element(y), element(y), build) for y in ([1], 1)
  )
  assert column.element_spec == plain.element_spec
  np.testing.assert_array_equal(column.train.load(0)[1], [1] * 4)


def test_a_client_with_wrong_values_is_named_when_it_is_read():
  data = of_function((tf.constant([np.nan, 1.0]), 1))
  task = tasks.from_client_data(data, data, build)
  with refused("client_data, test, client a", "x has"):
    task.test.load(0)


@pytest.mark.parametrize(
  ("arguments", "facts"),
  [
    # Keras takes a mapping here, whose keys would be read as weights.
    ({"class_weights": {0: 1, 1: 2}}, ["{0: 1, 1: 2}", "list"]),
    ({"class_weights": "balanced"}, ["'balanced'", "list"]),
    ({"class_weights": [1, -2]}, ["-2", "above 0"]),
    ({"class_weights": [1.0]}, ["1 numbers", "2 classes"]),
    ({"class_weights": [1, float("nan")]}, ["nan", "above 0"]),
    ({"loss": "mse"}, ["'mse'", "function"]),
    ({"num_classes": -1}, ["-1", "2 or more"]),
    (
      {"objective": models.class_objective(), "class_weights": [1, 2]},
      ["objective", "class_weights"],
    ),
  ],
)
def test_arguments_that_cannot_be_used(arguments, facts):
  with refused("client_data", *facts):
    tasks.from_client_data(TWO, TWO, build, **arguments)


@pytest.mark.parametrize(
  ("loss", "fact"),
  [
    (lambda _, z: tf.reduce_sum(z), r"float32\[\], expected float32\[4\]"),
    (lambda _, z: z, r"float32\[4, 2\]"),
    (lambda y, _: tf.cast(y, tf.float32), "no gradient"),
    (lambda y, z: y + z, "raises"),
  ],
)
def test_a_loss_that_is_none_is_refused(loss, fact):
  with pytest.raises(FieldError, match=fact) as error:
    tasks.from_client_data(TWO, TWO, build, loss=loss)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  ("dtype", "loss"),
  [
    (np.int64, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    (np.float32, tf.keras.losses.MeanSquaredError()),
  ],
)
def test_a_loss_of_keras_is_that_of_each_example(dtype, loss):
  data = of_arrays({"a": 2, "b": 2}, dtype)
  task = tasks.from_client_data(data, data, build, loss=loss)
  batch = task.train.load(0)
  plain = tasks.from_client_data(data, data, build)
  model, expected = task.model_fn(), plain.model_fn()
  found = model.forward_pass(batch).loss.numpy()
  assert found == pytest.approx(expected.forward_pass(batch).loss.numpy())
