"""Tests of tasks from clients' arrays, from pandas and from Hugging Face."""

import numpy as np
import pandas as pd
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import several_clients
from tests.tasks.from_client_data_test import build

CLIENTS = {
  "north": (np.arange(12.0).reshape(6, 2), np.arange(6) % 3),
  "south": (100 + np.arange(8.0).reshape(4, 2), np.arange(4) % 3),
}


def frame(y=None):
  x = np.concatenate([x for x, _ in CLIENTS.values()])
  return pd.DataFrame(
    {
      "clinic": np.repeat(["south", "north"], [4, 6]),
      "age": np.concatenate([x[6:, 0], x[:6, 0]]),
      "bmi": np.concatenate([x[6:, 1], x[:6, 1]]),
      "label": [0, 1, 2, 0, 0, 1, 2, 0, 1, 2] if y is None else y,
    }
  )


class HuggingFace:
  """Imitates a `datasets.Dataset`, whose package may not be installed."""

  class _ClassLabel:
    names = ("low", "middle", "high")

  def __init__(self, columns):
    self._columns = columns
    self.column_names = list(columns)
    self.features = {**dict.fromkeys(columns), "label": self._ClassLabel()}

  def with_format(self, kind):
    assert kind == "numpy"
    return self

  def __getitem__(self, rows):
    assert rows == slice(None)
    return self._columns


def everything(task):
  """Returns the rows of x and y of each client, train and test, in order."""
  found = {}
  for k, name in enumerate(task.client_names):
    arrays = several_clients.arrays(task.train, task.test, clients=[k])
    found[name] = sorted(map(tuple, np.column_stack(arrays)))
  return found


EXPECTED = {
  name: sorted(map(tuple, np.column_stack(arrays)))
  for name, arrays in CLIENTS.items()
}


@pytest.mark.parametrize(
  ("data", "options"),
  [
    (CLIENTS, {}),
    ({k: {"x": x, "y": y} for k, (x, y) in CLIENTS.items()}, {}),
    ({k: (x, y[:, np.newaxis]) for k, (x, y) in CLIENTS.items()}, {}),
    (frame().groupby("clinic"), {}),
    (frame().groupby(["clinic"]), {"label": "label"}),
    (frame(), {"client": "clinic", "features": ["age", "bmi"]}),
    (HuggingFace(dict(frame().items())), {"client": "clinic"}),
  ],
  ids=["pairs", "mappings", "column", "groupby", "list", "frame", "hugging"],
)
def test_each_client_has_its_examples(data, options):
  task = tasks.from_client_data(data, 0.3, build, **options)
  assert everything(task) == EXPECTED
  sizes = dict(zip(task.client_names, task.test.num_examples, strict=True))
  assert sizes == {"north": 2, "south": 1}
  assert task.num_classes == 3
  assert task.train_data(0).element_spec == task.element_spec
  again = tasks.from_client_data(data, 0.3, build, **options)
  np.testing.assert_array_equal(task.test.load(0)[0], again.test.load(0)[0])


def test_two_halves_and_clients_of_one_alone():
  test = {"north": CLIENTS["north"], "east": CLIENTS["south"]}
  task = tasks.from_client_data(CLIENTS, test, build)
  assert task.client_names == ["north"]
  assert "(2 without train or test examples left out)" in task.description
  np.testing.assert_array_equal(task.test.load(0)[0], CLIENTS["north"][0])


def test_client_data_is_shared_out():
  data = tasks_client_data({"a": 5, "b": 1})
  task = tasks.from_client_data(data, 0.4, build, num_classes=5)
  assert task.client_names == ["a"]
  assert task.train.num_examples.tolist() == [3]
  assert task.test.num_examples.tolist() == [2]
  _, y = several_clients.arrays(task.train, task.test)
  assert sorted(y) == list(range(5))


def tasks_client_data(sizes):
  import tensorflow_federated as tff  # noqa: PLC0415

  return tff.simulation.datasets.TestClientData(
    {
      k: {"x": np.ones([n, 2], np.float32), "y": np.arange(n)}
      for k, n in sizes.items()
    }
  )


def test_labels_with_names():
  words = frame(["no", "yes"] * 5).groupby("clinic")
  task = tasks.from_client_data(words, 0.5, build)
  assert (task.class_names, task.num_classes) == (["no", "yes"], 2)
  truth = frame(np.arange(10) % 2 == 0)
  task = tasks.from_client_data(truth, 0.5, build, client="clinic")
  assert task.class_names == ["False", "True"]
  named = HuggingFace(dict(frame([0, 1] * 5).items()))
  task = tasks.from_client_data(named, 0.5, build, client="clinic")
  assert (task.num_classes, task.class_names) == (3, ("low", "middle", "high"))


def test_labels_of_python_objects_are_taken_by_what_they_are():
  def load(labels):
    clients = {k: (TWO, np.array(labels, object)) for k in "ab"}
    return tasks.from_client_data(clients, 0.5, build)

  assert load([True, False]).class_names == ["False", "True"]
  assert load([b"no", b"yes"]).class_names == ["no", "yes"]
  assert load([1, 0]).class_names is None
  assert load([1, 0]).num_classes == 2
  assert load([0.5, 2]).num_classes is None
  table = frame(pd.array([0, 1] * 5, "Int64"))
  task = tasks.from_client_data(table, 0.5, build, client="clinic")
  assert (task.num_classes, task.class_names) == (2, None)


def test_numbers_as_labels():
  task = tasks.from_client_data(
    frame(np.arange(10) / 2), 0.5, build, client="clinic"
  )
  assert task.num_classes is None
  assert task.train.load(0)[1].dtype == np.float32


def grouped(**columns):
  return frame().assign(**columns).groupby("clinic")


def with_c(x, y):
  return {**CLIENTS, "c": (np.array(x), y)}


TWO = np.ones([2, 2])


@pytest.mark.parametrize(
  ("data", "place", "fact"),
  [
    ({}, "", "no clients"),
    ({"a": (TWO, [0])}, ", client a", "x has 2 examples, y has 1"),
    ({"a": np.ones(3)}, ", client a", "are float64[3]; expected (x, y)"),
    ({"a": (TWO, TWO, TWO)}, ", client a", "(float64[2, 2], float64[2, 2], "),
    ({"a": ([[1], [1, 2]], [0, 1])}, ", client a", "one shape for all"),
    ({"a": (np.ones([2, 0]), [0, 1])}, ", client a", "[0]"),
    ({1: (TWO, [0, 1]), "1": (TWO, [0, 1])}, "", "called '1'"),
    ({"a": (TWO, np.array(["p", None]))}, ", client a", "missing"),
    ([(TWO, [0, 1])], "", "list"),
    (with_c([[1, 2], [3, np.nan]], [0, 1]), ", client c", "x of example 1 "),
    ({"c": (TWO, [0.5, np.inf])}, ", client c", "y of example 1 "),
    (grouped(age=np.nan), "", "column 'age' of example 0 "),
    (grouped(label=["yes", None] * 5), "", "'label'"),
    (grouped(label=["yes", np.nan] * 5), "", "'label'"),
    ({"a": (["p", "q"], [0, 1])}, ", client a", "x must be numbers"),
    (
      with_c(np.ones([2, 3]), [0, 1]),
      ", client c",
      "float64[3] per example, that of another client float64[2]",
    ),
    (with_c(TWO, [0.5, 1]), "", "several kinds"),
    ({"a": (TWO, TWO > 0)}, ", client a", "bool[2] for each example"),
    (with_c(TWO, TWO > 0), ", client c", "y.astype(float)"),
    ({"a": (TWO, [["p", "q"]] * 2)}, ", client a", "y.argmax(axis=1)"),
    ({"a": (TWO, np.ones([2, 2], object))}, ", client a", "object[2] for each"),
    ({"a": (TWO, np.array(["p", 1], object))}, ", client a", "int and str"),
    ({"a": (TWO, [1j, 0])}, ", client a", "complex128"),
    ({"a": (TWO, np.array([1, 2], "M8[D]"))}, ", client a", "datetime64[D]"),
    ({"a": (TWO, np.ones([2, 2, 2]))}, ", client a", "[2, 2, 2]"),
    ({"a": (TWO, np.ones([2, 0]))}, ", client a", "[2, 0]"),
    ({"a": (TWO, 1)}, ", client a", "shape []"),
    ({"a": (1, [1])}, ", client a", "axis of examples"),
    (grouped(label=[[True, False]] * 10), ", client north", "list"),
    (
      HuggingFace({"clinic": np.repeat([1, 2], 5), "label": np.eye(10) > 0}),
      "",
      "client=",
    ),
    (with_c(TWO, [0, -1]), ", train, client c", "-1"),
    (frame().rename(columns={"label": "ill"}).groupby("clinic"), "", "label="),
    (grouped(town="x"), "", "'town' holds object"),
    (frame(), "", "clinic, age, bmi, label"),
    (grouped()[["label"]], "", "features"),
    (
      frame().assign(clinic=[np.nan, *"abcdefghi"]).groupby("clinic"),
      "",
      "'cl",
    ),
  ],
)
def test_data_that_cannot_be_used(data, place, fact):
  with refused(f"client_data{place}", fact):
    tasks.from_client_data(data, 0.5, build)


def test_a_groupby_has_the_columns_that_were_chosen_of_it():
  grouped = frame().groupby("clinic")[["age", "label"]]
  task = tasks.from_client_data(grouped, 0.5, build)
  assert task.element_spec[0].shape == [None, 1]
  by_series = frame().groupby(frame()["clinic"])
  assert everything(tasks.from_client_data(by_series, 0.5, build)) == EXPECTED


def test_weights_of_clients():
  by_hand = {"south": 4, "north": 0.5, "east": 1}
  table = grouped(beds=np.repeat([4, 0.5], [4, 6]))
  for data, weights in ((CLIENTS, by_hand), (table, "beds")):
    task = tasks.from_client_data(data, 0.5, build, client_weights=weights)
    found = dict(zip(task.client_names, task.client_weights, strict=True))
    assert found == {"north": 0.5, "south": 4.0}
    assert task.element_spec[0].shape == [None, 2]


def test_weights_of_clients_are_the_same_in_both_halves():
  table = frame().assign(beds=np.repeat([4, 0.5], [4, 6]))
  with refused("client_data", "0.5 in train", "2 in test"):
    tasks.from_client_data(
      table, table.assign(beds=2), build, client="clinic", client_weights="beds"
    )


@pytest.mark.parametrize("halves", [1, 2])
def test_groups_are_those_of_each_example(halves):
  # x identifies an example, so that its group is known in both halves.
  table = frame().assign(sex=list("fmfmfmfmfm"))
  of_age = dict(zip(table["age"], table["sex"], strict=True))
  task = tasks.from_client_data(
    table.groupby("clinic"),
    0.5 if halves == 1 else table.iloc[::-1].groupby("clinic"),
    build,
    group="sex",
  )
  assert task.group_names == ["f", "m"]
  assert task.element_spec[0].shape == [None, 2]
  for half in (task.train, task.test):
    assert half.groups is not None
    for k in range(2):
      ages = half.load(k)[0][:, 0]
      groups = [task.group_names[place] for place in half.groups(k)]
      assert groups == [of_age[age] for age in ages]


HOT = {"clinic": np.repeat([1, 2], 5), "label": np.eye(10) > 0}
UNEQUAL = [np.nan, "a"] * 5


@pytest.mark.parametrize(
  ("data", "option", "value", "fact"),
  [
    (CLIENTS, "test", 1.0, "1.0"),
    (CLIENTS, "label", "ill", "label='ill' names a column, and dict"),
    (frame(), "client", "hospital", "'hospital'"),
    (frame()[["clinic", "age", "age"]], "client", "clinic", "one column 'age'"),
    (
      frame().assign(clinic=UNEQUAL),
      "client",
      "clinic",
      "'clinic' has missing",
    ),
    (frame().assign(clinic=[1, "1"] * 5), "client", "clinic", "several kinds"),
    (HuggingFace({**HOT, "x": np.ones(10)}), "client", "clinic", "bool[10]"),
    (grouped(), "features", ["age", "label"], "names the label"),
    (CLIENTS, "client_weights", {"north": 1}, "'south' has no"),
    (CLIENTS, "client_weights", {"north": 1, "south": -1}, "the weight -1"),
    (CLIENTS, "client_weights", [1, 2], "list"),
    (grouped(), "client_weights", "bmi", "'north' has the weights 1 and"),
    (grouped(), "client_weights", "beds", "'beds'"),
    (CLIENTS, "group", "sex", "dict has none"),
    (grouped(), "group", "sex", "'sex'"),
    (grouped(sex="f"), "group", "sex", "1 values"),
    (grouped(sex=UNEQUAL), "group", "sex", "'sex' has missing values"),
    (grouped(sex=["f", "m"] * 5, label=0.5), "group", "sex", "needs classes"),
  ],
)
def test_options_that_cannot_be_used(data, option, value, fact):
  with refused("", fact):
    tasks.from_client_data(data, **{"test": 0.5, "model": build, option: value})
