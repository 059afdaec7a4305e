"""Tests that the task `tfds` reads what tensorflow-datasets has prepared."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import tasks
from tests.refusals import refused, rejected
from tests.tasks import several_clients, tfds_data

pytestmark = pytest.mark.pure

F = tfds.features


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  directory = tmp_path_factory.mktemp("tfds")
  tfds_data.write_images(directory)
  tfds_data.write(
    directory,
    "reviews",
    {"text": F.Text(), "label": F.ClassLabel(names=["neg", "pos"])},
    {
      "train": [
        {"text": f"It's {['bad', 'good'][k % 2]}, film {k}", "label": k % 2}
        for k in range(40)
      ],
      "test": [{"text": "good", "label": -1}] * 3,
      "extra": [{"text": "so so", "label": 0}],
    },
    ("text", "label"),
  )
  tfds_data.write(
    directory,
    "ship",
    {
      "passenger": {
        "age": np.float32,
        "deck": F.ClassLabel(names=["A", "B"]),
        "port": F.Text(),
        "name": F.Text(),
        "is_adult": np.bool_,
      },
      "survived": np.int64,
      "fare": np.float32,
      "crew": np.float64,
      "box": F.Tensor(shape=(3,), dtype=np.float32),
      "marks": F.Sequence(np.int64),
    },
    {
      "train": [
        {
          "passenger": {
            "age": np.nan if k == 7 else k,
            "deck": k % 3 - 1,
            "port": "xyz"[k % 3],
            "name": f"passenger {k}",
            "is_adult": k > 18,
          },
          "survived": k % 2 + 1,
          "fare": k + 0.5,
          "crew": 1.5 + k % 3,
          "box": [k, k % 2, 1.0],
          "marks": [k] * (k % 3),
        }
        for k in range(60)
      ]
    },
  )
  return directory


def load(data_dir, name, **options):
  return tasks.load("tfds", data_dir=data_dir, name=name, **options)


def everything(task):
  return several_clients.arrays(task.train, task.test)


def test_images_are_cut_as_those_of_other_tasks(data_dir):
  task = load(data_dir, "shades", num_clients=3, partition="labels")
  assert task.client_names == ("dark", "grey", "light")
  assert task.class_names == ["dark", "grey", "light"]
  x, y = everything(task)
  assert x.shape == (75, 4, 4, 1)
  np.testing.assert_array_equal(np.rint(x[:, 0, 0, 0] * 255) // 10, y)
  published = load(data_dir, "shades", num_clients=3, test_data="published")
  assert published.test.num_examples.sum() == 15
  assert "shades 1.0.0 over 3 clients at random" in published.description


def test_clients_of_a_feature(data_dir):
  task = load(data_dir, "shades:1.0.0", client="writer")
  assert task.client_names == ("0", "1", "2", "3", "4")
  for k in range(5):
    shades = np.rint(task.train.load(k)[0][:, 0, 0, 0] * 255)
    assert set(shades % 10) == {k}
  assert (
    load(data_dir, "shades", client="writer", num_clients=2).num_clients == 2
  )


def test_images_of_another_size_and_model(data_dir):
  task = load(data_dir, "shades", image_size=8, num_clients=2, model="cnn")
  assert task.element_spec[0].shape == [None, 8, 8, 1]


def test_texts_are_bags_of_words(data_dir):
  task = load(data_dir, "reviews", num_clients=2, num_words=4)
  assert (
    "(3 without label left out) (without the splits extra), bags of 4 words"
    in task.description
  )
  x, y = everything(task)
  assert x.shape == (40, 4)
  # The words are film, it's, good and bad, in some order; others are too rare.
  np.testing.assert_allclose(x.sum(axis=1), 1, rtol=1e-6)
  (differs,) = np.nonzero(np.ptp(x, axis=0))
  of_label = [
    {tuple(row) for row in x[y == label][:, differs]} for label in (0, 1)
  ]
  assert all(len(rows) == 1 for rows in of_label)
  assert of_label[0] != of_label[1]


def test_features_are_a_table(data_dir):
  features = (
    "passenger/age,passenger/deck,passenger/port,passenger/is_adult,fare"
  )
  task = load(
    data_dir, "ship", label="survived", features=features, num_clients=3
  )
  assert task.class_names == ["1", "2"]
  x, y = everything(task)
  # x has age, fare, and a flag of missing ages, unless all training rows have
  # an age. Then come three columns of texts, each with a place for texts
  # that were not seen: A, B or none; x, y, z; false, true.
  has_flag = x.shape[1] == 2 + 1 + 4 + 4 + 3
  assert has_flag or x.shape[1] == 2 + 4 + 4 + 3
  train, _ = several_clients.arrays(task.train)
  np.testing.assert_allclose(train[:, 1].mean(), 0, atol=1e-6)
  np.testing.assert_allclose(train[:, 1].std(), 1, rtol=1e-6)
  # The fare of passenger k is k + 0.5, and determines the label.
  ranks = np.argsort(np.argsort(x[:, 1]))
  np.testing.assert_array_equal(ranks % 2, y)


def test_a_tensor_is_taken_as_it_is(data_dir):
  task = load(data_dir, "ship", label="survived", features="box")
  x, y = everything(task)
  np.testing.assert_array_equal(x[:, 1], y)
  assert sorted(x[:, 0]) == list(range(60))


def test_an_empty_text_is_no_label(tmp_path):
  features = {"x": F.Tensor(shape=(2,), dtype=np.float32), "kind": F.Text()}
  rows = [{"x": [k, 1.0], "kind": ["a", "b", ""][k % 3]} for k in range(9)]
  tfds_data.write(tmp_path, "kinds", features, {"train": rows})
  options = {"label": "kind", "features": "x", "num_clients": 1}
  task = load(tmp_path, "kinds", **options)
  assert task.class_names == ("a", "b")
  assert sorted(everything(task)[1]) == [0, 0, 0, 1, 1, 1]
  assert "(3 without label left out)" in task.description


def test_nan_is_not_a_class(tmp_path):
  features = {"x": F.Tensor(shape=(2,), dtype=np.float32), "y": np.float32}
  rows = [{"x": [k, 1.0], "y": [1, 2, np.nan][k % 3]} for k in range(9)]
  tfds_data.write(tmp_path, "floats", features, {"train": rows})
  task = load(tmp_path, "floats", label="y", features="x", num_clients=1)
  assert task.class_names == ["1", "2"]
  assert sorted(everything(task)[1]) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
  ("name", "options", "facts"),
  [
    ("", {}, ["missing"]),
    ("ships", {}, ["data set ships", "reviews, shades, ship", "download=true"]),
    ("ship:2.0.0", {}, ["ship:2.0.0", "reviews"]),
    ("ship", {}, ["label=", "fare"]),
    ("ship", {"label": "survive"}, ["'survive' (label)", "survived"]),
    ("ship", {"label": "survived", "client": "deck"}, ["'deck' (client)"]),
    ("ship", {"label": "marks"}, ["'marks'"]),
    ("ship", {"label": "survived"}, ["'box' (numbers)"]),
    ("ship", {"label": "survived", "features": "marks"}, ["'marks' (other)"]),
    (
      "ship",
      {"label": "survived", "features": "passenger/name,fare"},
      ["'passenger/name'", "free text"],
    ),
  ],
)
def test_data_that_is_not_there_or_no_examples(data_dir, name, options, facts):
  with refused("ship/1.0.0" if options else "", *facts):
    load(data_dir, name, **options)


FARE = {"name": "ship", "label": "fare", "features": "box"}


def test_numbers_to_predict(data_dir):
  task = load(data_dir, **FARE, client="passenger/port", model="mlp_128")
  assert (task.num_classes, task.class_names) == (None, None)
  assert task.element_spec[1].dtype == np.float32
  assert task.keras_model_fn().output_shape == (None, 1)
  x, y = everything(task)
  # The fare of passenger k is k + 0.5, and k the first number in the box.
  np.testing.assert_allclose(
    np.diff(y[np.argsort(x[:, 0])]) * task.label_scale, 1, rtol=1e-4
  )
  _, train = several_clients.arrays(task.train)
  assert train.mean() == pytest.approx(0, abs=1e-6)
  at_random = load(data_dir, **FARE, num_clients=4, partition="power_law")
  assert len(everything(at_random)[1]) == 60


@pytest.mark.parametrize(
  ("options", "field"),
  [
    ({"name": "reviews", "model": "cnn"}, "model"),
    ({"name": "shades", "partition": "users"}, "partition"),
    (
      {"name": "shades", "client": "writer", "partition": "shards"},
      "partition",
    ),
    ({"name": "shades", "num_words": 0}, "num_words"),
    ({**FARE, "partition": "dirichlet"}, "partition"),
    ({**FARE, "model": "mlp_double_softmax"}, "model"),
  ],
)
def test_options_that_do_not_fit(data_dir, options, field):
  with rejected(field, value=options[field]):
    load(data_dir, **options)


def test_nothing_is_fetched_unless_asked_for(tmp_path, monkeypatch):
  asked = []

  class Builder:
    def __init__(self, name, data_dir):
      asked.append((name, data_dir))

    def download_and_prepare(self):
      tfds_data.write_images(tmp_path)

  monkeypatch.setattr(tfds, "builder", Builder)
  with refused(tmp_path, "nothing"):
    load(tmp_path, "shades")
  assert not asked
  assert load(tmp_path, "shades", download=True).num_classes == 3
  assert asked == [("shades", str(tmp_path))]


def test_weights_of_clients(data_dir):
  options = {"label": "survived", "client": "passenger/port"}
  task = load(
    data_dir, "ship", features="fare", client_weight="crew", **options
  )
  assert task.client_names == ("x", "y", "z")
  assert task.client_weights.tolist() == [1.5, 2.5, 3.5]
  for weight, fact in (
    ("fare", "'x' has the weights 0.5 and 3.5"),
    ("passenger/deck", "'passenger/deck' (client_weight)"),
    ("crews", "'crews' (client_weight)"),
  ):
    with refused("", fact):
      load(data_dir, "ship", features="fare", client_weight=weight, **options)
  with rejected("client_weight"):
    load(data_dir, "ship", label="survived", client_weight="crew")


def test_a_weight_is_not_an_input(tmp_path):
  features = {
    "of": {"site": F.Text(), "beds": np.float32, "age": np.float32},
    "y": np.int64,
  }
  rows = [
    {"of": {"site": "ab"[k % 2], "beds": k % 2 + 1, "age": k}, "y": k // 2 % 2}
    for k in range(20)
  ]
  tfds_data.write(tmp_path, "wards", features, {"train": rows}, ("of", "y"))
  task = load(tmp_path, "wards", client="of/site", client_weight="of/beds")
  assert task.element_spec[0].shape == [None, 1]
