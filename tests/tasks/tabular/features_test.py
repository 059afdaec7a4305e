"""Tests that NumPy and Keras layers compute the same x from a table."""

import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

import tasks
from tests.tasks import tabular_data

pytestmark = pytest.mark.program

# Misleading names, texts and numbers: names like those of layers, empty or
# similar names, the word for unseen texts, texts of two lines, numbers as
# texts.
HEADER = [
  *("who", "half", "y"),
  *("a, b", "a_ b", "1x", "number", "probabilities", "gr\u00f6\u00dfe"),
  *("class text", "x.numbers", "\u540d"),
]
TRAIN = [
  ["1000000000", "1", "0.1", "5", "", "1e-40", "x", "[UNK]", "new\nline"],
  ["1000000064", "", "0.1", "6", "", "2e-40", "[UNK]_", "alpha", "NA"],
  ["", "2.5", "0.1", "7", "", "", "x", "", "1"],
  ["1000000512", "0.1", "0.1", "5", "", "3e-40", "\u00fc", "[UNK]", "01"],
  ["1000000000", "0.3", "0.1", "5", "", "1e-40", "z", "alpha", "new\nline"],
]
TEST = [
  ["999999000", "", "1e30", "", "5", "7e-40", "Z", "unseen", "new\nline"],
  ["", "-1e30", "", "5.5", "", "", "[UNK]", "", ""],
  ["5", "4", "0.1", "-3", "", "0", "[UNK]_", "[UNK]", "1.0"],
  ["1e20", "1e-30", "0.1", "5", "", "1", "", "ALPHA", "\u00fc"],
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
  rows = [
    *(["ab"[k % 2], "train", k % 2, *row] for k, row in enumerate(TRAIN)),
    *(["ab"[k % 2], "test", k % 2, *row] for k, row in enumerate(TEST)),
  ]
  path = tmp_path_factory.mktemp("table") / "hard.csv"
  tabular_data.write_csv(path, HEADER, rows)
  return path


def load(path, **options):
  defaults = {"client": "who", "label": "y", "split": "half", "kind": "classes"}
  return tasks.load("table", file=str(path), **{**defaults, **options})


def raw_values(task, half):
  """Returns the raw values that a user would have, in the file's order."""
  columns = zip(HEADER[3:], zip(*half, strict=True), strict=True)
  return {
    name: np.array([float(v or "nan") for v in values], np.float32)
    if task.preprocessing.columns[name] == "number"
    else np.array(values, object)
    for name, values in columns
  }


def tensors(raw):
  return {name: tf.constant(values) for name, values in raw.items()}


def encoded(split):
  """Returns x in the order of the file, in which the two clients take turns."""
  (x_a, _), (x_b, _) = split.load(0), split.load(1)
  x = np.empty([len(x_a) + len(x_b), x_a.shape[1]], np.float32)
  x[0::2], x[1::2] = x_a, x_b
  return x


def test_typical_values_are_those_of_training_rows(table):
  preprocessing = load(table).preprocessing
  raw = raw_values(load(table), TRAIN)
  assert preprocessing.typical.keys() == preprocessing.columns.keys()
  for name, value in preprocessing.typical.items():
    if preprocessing.columns[name] == "number":
      known = raw[name][np.isfinite(raw[name])]
      slack = 0.005 * np.abs(known).max(initial=0)
      assert known.min(initial=np.inf) - slack <= value or not known.size
      assert value <= known.max(initial=-np.inf) + slack or not known.size
    else:
      assert value in raw[name]


def test_the_kinds_of_columns(table):
  columns = load(table).preprocessing.columns
  assert list(columns) == HEADER[3:]
  assert [name for name, kind in columns.items() if kind == "text"] == [
    *("class text", "x.numbers", "\u540d")
  ]


@pytest.mark.parametrize("half", ["train", "test"])
def test_keras_layers_make_the_x_of_numpy(table, half):
  task = load(table)
  raw = raw_values(task, TRAIN if half == "train" else TEST)
  found = task.preprocessing.encoder()(tensors(raw)).numpy()
  np.testing.assert_array_equal(found, encoded(getattr(task, half)))


def test_x_is_that_of_float64(table):
  task = load(table)
  raw = raw_values(task, TRAIN)
  expected = np.zeros([5, 6])
  is_missing = np.zeros([5, 6], bool)
  for k, name in enumerate(HEADER[3:9]):
    values = raw[name].astype(np.float64)
    is_missing[:, k] = np.isnan(values)
    # These columns are constant, all missing, or vary too little for float32.
    if name not in ("1x", "probabilities", "gr\u00f6\u00dfe"):
      z = (values - np.nanmean(values)) / np.nanstd(values)
      expected[:, k] = np.nan_to_num(z)
  x = encoded(task.train)
  np.testing.assert_allclose(x[:, :6], expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(x[:, 6:10], is_missing[:, [0, 1, 4, 5]])


def test_the_place_of_texts(table):
  task = load(table)
  x = encoded(task.test)[:, 10:]
  # Column 1: unseen, [UNK]_, x, z, u. Column 2: unseen, missing, [UNK], alpha.
  np.testing.assert_array_equal(x[:, :5], one_hot([0, 0, 1, 0], 5))
  np.testing.assert_array_equal(x[:, 5:9], one_hot([0, 1, 2, 0], 4))
  # Column 3: unseen, 01, 1, NA, new line. No training row lacks this text, so
  # missing texts have no place of their own.
  np.testing.assert_array_equal(x[:, 9:], one_hot([4, 0, 0, 0], 5))


def one_hot(places, width):
  """Returns rows with a 1 at each place; unseen texts, at 0, have none."""
  return np.eye(width)[places] * (np.array(places) > 0)[:, np.newaxis]


def test_texts_that_no_client_learned_have_no_effect(table):
  task = load(table)
  model = task.keras_model_fn()
  raw = tensors(
    {
      name: np.full(len(values), "never") if values.dtype == object else values
      for name, values in raw_values(task, TEST).items()
    }
  )
  found = task.preprocessing.wrap(model)(raw).numpy()
  kernel, bias = model.get_weights()
  kernel[10:] = 0  # The weights of all text features.
  model.set_weights([kernel, bias])
  without_texts = task.preprocessing.wrap(model)(raw).numpy()
  np.testing.assert_array_equal(found, without_texts)


def test_probabilities_come_out(table):
  task = load(table)
  model = task.keras_model_fn()
  around = task.preprocessing.wrap(model)
  found = around(tensors(raw_values(task, TRAIN))).numpy()
  assert (found.shape, found.dtype) == ((5, 2), np.float32)
  logits = model(encoded(task.train)).numpy()
  expected = special.softmax(logits.astype(np.float64), axis=1)
  np.testing.assert_allclose(found, expected, atol=1e-6)


def test_numbers_come_out_in_their_own_units(tmp_path):
  table = [["ab"[k % 2], k, 1e6 + 50 * k] for k in range(40)]
  path = tabular_data.write_csv(tmp_path / "n.csv", ["who", "x", "y"], table)
  task = load(path, split=None, kind="auto", keep="x")
  assert task.num_classes is None
  assert task.class_names is None
  model = task.keras_model_fn()
  x = tf.range(40, dtype=tf.float32)
  found = task.preprocessing.wrap(model)({"x": x}).numpy()
  assert (found.shape, found.dtype) == ((40,), np.float32)
  # The standardized x of all rows shows which rows are for training.
  every_x = task.preprocessing.encoder()({"x": x}).numpy()
  halves = [task.train.load(k) for k in (0, 1)]
  rows = np.concatenate([np.argmax(every_x == h[0].T, axis=0) for h in halves])
  y = 1e6 + 50.0 * rows
  np.testing.assert_allclose(task.label_scale, y.std(), rtol=1e-12)
  outputs = model(every_x).numpy()[:, 0]
  np.testing.assert_allclose(found, y.mean() + y.std() * outputs, rtol=1e-6)
  standardized = np.concatenate([h[1] for h in halves])
  np.testing.assert_allclose(standardized * y.std() + y.mean(), y, rtol=1e-7)


@pytest.mark.parametrize("column", ["number", "text"])
def test_a_model_of_one_column_loads_again(column, tmp_path):
  values = {"number": range(3), "text": "xyz"}[column]
  rows = [["ab"[k % 2], values[k % 3], "ny"[k % 2]] for k in range(12)]
  path = tabular_data.write_csv(tmp_path / "n.csv", ["who", "x", "y"], rows)
  task = load(path, split=None, kind="auto")
  model = task.preprocessing.wrap(task.keras_model_fn())
  model.save(tmp_path / "model.keras")
  again = tf.keras.models.load_model(tmp_path / "model.keras")
  raw = {"x": tf.constant({"number": [0, np.nan], "text": ["x", ""]}[column])}
  np.testing.assert_array_equal(again(raw), model(raw))


_PROGRAM = """
import json, sys
import numpy as np
import tensorflow as tf

with open("raw.json") as file:
  raw = {
    name: tf.constant(values, tf.float32 if kind == "number" else tf.string)
    for name, (kind, values) in json.load(file).items()
  }
expected = np.load("expected.npy")
for name in ("model.keras", "folder"):
  model = tf.keras.models.load_model(name)
  assert np.abs(model(raw) - expected).max() <= 1e-6
assert "tasks" not in sys.modules
print("same")
"""


def test_saved_models_need_none_of_our_code(table, tmp_path, warm_python):
  task = load(table)
  model = task.preprocessing.wrap(task.keras_model_fn())
  raw = raw_values(task, TEST[:3])
  model.save(tmp_path / "model.keras")
  model.save(tmp_path / "folder")
  np.save(tmp_path / "expected.npy", model(tensors(raw)).numpy())
  kinds = task.preprocessing.columns
  content = {name: (kinds[name], raw[name].tolist()) for name in raw}
  (tmp_path / "raw.json").write_text(json.dumps(content))
  found = subprocess.run(
    [warm_python, "-c", _PROGRAM],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  assert found.stdout == "same\n", found.stderr
