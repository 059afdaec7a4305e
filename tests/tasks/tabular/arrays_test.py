"""Tests of the task `arrays`, which reads x, y and client from an npz file."""

import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import tabular_data

COUNT = 30
HALVES = np.array(["train", "train", "test"]).repeat(10)


def load(directory, options=None, **arrays):
  tabular_data.write_arrays(directory, **arrays)
  return tasks.load(
    "arrays", data_dir=directory, file="examples.npz", **(options or {})
  )


def test_groups_of_people(tmp_path):
  group = np.array(["f", "m", "m"] * 10)
  task = load(tmp_path, group=group)
  assert task.group_names == ["f", "m"]
  for half in (task.train, task.test):
    for client_id in range(3):
      x, _ = half.load(client_id)
      rows = np.rint(x[:, 0, 0] * 100 / 6).astype(int)
      np.testing.assert_array_equal(
        np.array(task.group_names)[half.groups(client_id)], group[rows]
      )
  with refused("examples.npz, group (group)", 30):
    load(tmp_path, group=np.arange(COUNT))
  with refused("(group)", "classes"):
    load(tmp_path, {"kind": "number"}, y=np.arange(COUNT), group=group)


def test_arrays_that_are_left_out_are_named(tmp_path):
  with pytest.warns(UserWarning, match="ignores the arrays groups, z"):
    load(tmp_path, z=[1], groups=["f"])


def test_a_task_of_classes(tmp_path):
  task = load(tmp_path)
  assert task.client_names == ("a", "b", "c")
  assert task.train.num_examples.tolist() == [8, 8, 8]
  assert task.class_names == ("0", "1", "2")
  x, y = task.train.load(0)
  assert (x.shape, x.dtype, y.dtype) == ((8, 3, 2), np.float32, np.int32)
  # Example k begins with 6 k / 100.
  rows = np.rint(x[:, 0, 0] * 100 / 6).astype(int)
  assert (rows % 3 == 1).all()
  np.testing.assert_array_equal(y, rows // 2 % 3)
  assert task.preprocessing is None
  assert "examples.npz, x 3x2: 3 clients" in task.description


@pytest.mark.parametrize(
  ("clients", "names"),
  [
    (np.arange(COUNT, dtype=np.uint8) % 3 * 7, ("0", "7", "14")),
    (np.array([b"a", b"\xc3\xbc"] * 15), ("a", "\u00fc")),
    (np.array([b"\xf6", b"\xfc"] * 15), ("\\xf6", "\\xfc")),
    (np.arange(COUNT) % 2 == 0, ("False", "True")),
    (np.arange(COUNT) % 2 / 2, ("0.0", "0.5")),
  ],
)
def test_clients_of_any_kind(tmp_path, clients, names):
  assert load(tmp_path, client=clients).client_names == names


@pytest.mark.parametrize(
  ("y", "names"),
  [
    (np.arange(COUNT, dtype=np.uint8) // 3 % 2 * 5, ("0", "5")),
    (np.array(["no", "yes"]).repeat(15), ("no", "yes")),
    (np.arange(COUNT) // 3 % 2 == 0, ("False", "True")),
    (np.arange(COUNT) // 3 % 3 * 1.0, ("0", "1", "2")),
  ],
)
def test_classes_of_any_kind(tmp_path, y, names):
  assert load(tmp_path, y=y).class_names == names


def test_columns_are_taken_as_vectors(tmp_path):
  y = np.arange(COUNT) // 2 % 3
  client = np.array(["b", "a", "c"] * 10)
  task = load(
    tmp_path,
    y=y[:, np.newaxis],
    client=client[:, np.newaxis],
    split=HALVES[:, np.newaxis],
  )
  plain = load(tmp_path, y=y, client=client, split=HALVES)
  np.testing.assert_equal(task.train.load(1), plain.train.load(1))
  column = load(tmp_path, x=np.ones([COUNT, 1]))  # x stays a column.
  assert column.element_spec[0].shape == [None, 1]


def test_kind_decides(tmp_path):
  whole = np.arange(COUNT) // 3 % 3
  assert load(tmp_path, {"kind": "number"}, y=whole).class_names is None
  task = load(tmp_path, {"kind": "classes"}, y=whole / 2)
  assert task.class_names == ("0", "0.5", "1")
  with refused("examples.npz, y", "kind=number"):
    load(tmp_path, {"kind": "number"}, y=["no", "yes"] * 15)
  with refused("examples.npz", "2 float64", "kind=number"):
    load(tmp_path, {"kind": "classes"}, y=np.zeros([COUNT, 2]))


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_class_has_an_example_to_train_on(tmp_path, seed):
  y = np.arange(COUNT) % 2
  y[7] = 2
  assert load(tmp_path, {"seed": seed}, y=y).num_classes == 3


def test_numbers_as_labels_stay_as_they_are(tmp_path):
  y = np.arange(COUNT) * 100.0
  task = load(tmp_path, {"model": "mlp"}, y=y)
  assert (task.num_classes, task.class_names) == (None, None)
  assert task.label_scale == 1
  x, found = task.train.load(2)
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, x[:, 0, 0] * 1e4 / 6, rtol=1e-6)
  assert task.keras_model_fn().output_shape == (None, 1)


def test_several_numbers_as_labels(tmp_path):
  y = np.arange(COUNT * 3.0).reshape(COUNT, 3)
  task = load(tmp_path, {"model": "mlp_128"}, y=y)
  assert "3 numbers as label" in task.description
  assert task.keras_model_fn().output_shape == (None, 3)
  x, found = task.train.load(1)
  rows = np.rint(x[:, 0, 0] * 100 / 6).astype(int)
  np.testing.assert_array_equal(found, y[rows])
  assert task.train_data(1).element_spec == task.element_spec
  whole = load(tmp_path, {"kind": "number"}, y=y.astype(int))
  assert whole.element_spec == task.element_spec
  # Both forms of the model have the same loss and metric.
  model, functional = task.model_fn(), task.functional_model_fn()
  outputs = task.keras_model_fn()(x).numpy()
  loss = np.mean((outputs - found) ** 2)
  passed = model.forward_pass((x, found), training=False)
  np.testing.assert_allclose(passed.loss, loss, rtol=1e-5)
  state = functional.update_metrics_state(
    functional.initialize_metrics_state(), labels=found, batch_output=passed
  )
  metrics = functional.finalize_metrics(state)
  np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
  np.testing.assert_allclose(
    metrics["mean_absolute_error"], np.abs(outputs - found).mean(), rtol=1e-5
  )


def test_bytes_become_floats_for_who_takes_part(tmp_path):
  images = np.full([COUNT, 4], 255, np.uint8)
  x, _ = load(tmp_path, x=images).test.load(0)
  assert x.dtype == np.float32
  assert (x == 255).all()
  x, _ = load(tmp_path, x=np.arange(COUNT)).test.load(0)
  assert x.ndim == 1


def test_a_split_of_the_file(tmp_path):
  task = load(tmp_path, split=HALVES)
  assert task.test.num_examples.sum() == 10
  with refused("examples.npz, split of example 0 (counted from 0)", "'x'"):
    load(tmp_path, split=np.array(["x", *HALVES[1:]]))


ZEROS = np.zeros([COUNT, 2])


def changed(array, place, value):
  array = np.array(array, np.float32)
  array[place] = value
  return array


@pytest.mark.parametrize(
  ("arrays", "place", "facts"),
  [
    ({"x": np.zeros([0, 2])}, "", ["x has no"]),
    ({"x": np.float32(1)}, "", ["x has no"]),
    ({"x": np.zeros([COUNT, 0])}, "", ["x has no", "[30, 0]"]),
    ({"y": np.zeros([COUNT, 0])}, "", ["y has no", "[30, 0]"]),
    ({"x": np.array(["a"] * COUNT)}, "", ["x must", "<U1"]),
    ({"x": np.zeros([29, 2])}, "", ["y has 30", "x has 29"]),
    ({"client": ZEROS}, "", ["client must", "[30, 2]"]),
    ({"y": np.zeros([COUNT, 2, 1])}, "", ["y must", "[30, 2, 1]"]),
    ({"y": np.eye(COUNT, dtype=int)}, "", ["30 int64", "y.argmax(axis=1)"]),
    ({"y": changed(ZEROS, (7, 1), np.nan)}, "", ["y of example 7 "]),
    ({"y": np.zeros(COUNT, complex)}, "", ["y must", "complex128"]),
    ({"y": changed(range(COUNT), 5, np.nan)}, "", ["y of example 5 "]),
    (
      {"x": changed(ZEROS, (29, 1), -np.inf)},
      *("", ["x of example 29 (counted from 0)", "infinite"]),
    ),
    ({"client": ["a"] * COUNT}, ", client", ["'a'"]),
    ({"y": [3] * COUNT}, ", y", ["'3'"]),
    (
      {"split": HALVES, "y": [0, 1] * 14 + [0, 2]},
      ", y, example 29 (counted from 0)",
      ["'2'", "test"],
    ),
    ({"client": np.array([{}] * COUNT)}, "", ["client.astype(str)"]),
    ({"y": np.array(["a", None] * 15)}, "", ["y.astype(str)"]),
  ],
)
def test_arrays_that_are_no_examples(tmp_path, arrays, place, facts):
  with refused(f"examples.npz{place}", *facts):
    load(tmp_path, **arrays)


def test_files_of_another_format(tmp_path):
  (tmp_path / "rows.csv").write_text("x,y,client\n1,0,a\n")
  with refused("rows.csv", "table"):
    tasks.load("arrays", data_dir=tmp_path, file="rows.csv")
  (tmp_path / "rows.npz").write_text("x,y,client\n1,0,a\n")
  with refused("rows.npz", "npz"):
    tasks.load("arrays", data_dir=tmp_path, file="rows.npz")
  np.savez(tmp_path / "some.npz", x=np.zeros(3), y=np.zeros(3))
  with refused("some.npz", "client", "x, y"):
    tasks.load("arrays", data_dir=tmp_path, file="some.npz")


def test_weights_of_clients(tmp_path):
  weight = np.array([2, 0.5, 7])[np.arange(COUNT) % 3]
  task = load(tmp_path, client_weight=weight)
  assert task.client_weights.tolist() == [0.5, 2, 7]
  assert load(tmp_path).client_weights is None


@pytest.mark.parametrize(
  ("weight", "place", "fact"),
  [
    (np.arange(COUNT), ", client_weight", "'a' has the weights 1 and 4"),
    (np.zeros(COUNT), ", client_weight", "'a' has the weight 0"),
    (np.full(COUNT, np.nan), "", "client_weight of example 0 "),
    (np.full(COUNT, "1"), "", "client_weight must be numbers"),
    (np.ones(COUNT - 1), "", "client_weight has 29"),
  ],
)
def test_weights_of_clients_that_cannot_be_used(tmp_path, weight, place, fact):
  with refused(f"examples.npz{place}", fact):
    load(tmp_path, client_weight=weight)
