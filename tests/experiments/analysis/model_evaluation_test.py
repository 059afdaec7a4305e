"""Tests that audits of models on a small task agree with plain NumPy."""

import dataclasses
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.special import log_softmax

import tasks
from tasks import models, task
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments.analysis import model_evaluation

SIZES = (4, 1, 7)
RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 2)).astype(np.float32) for n in SIZES]
CLASSES = [RNG.integers(0, 3, n).astype(np.int32) for n in SIZES]
NUMBERS = [RNG.normal(size=n).astype(np.float32) for n in SIZES]
WEIGHTS = RNG.normal(size=(2, 3)).astype(np.float32)


class Columns:
  """A preprocessing that only says which raw columns there are."""

  columns = {"width": "number", "colour": "text"}  # noqa: RUF012

  def wrap(self, model):
    raise NotImplementedError


def raw(labels):
  def of_client(k):
    colours = np.where(X[k][:, 1] > 0, "red", "")
    return {"width": X[k][:, 0], "colour": colours}, labels[k]

  return of_client


def make_task(labels=CLASSES, num_classes: int | None = 3, **changes):
  split = tasks.Split(
    num_examples=np.array(SIZES),
    load=lambda k: (X[k], labels[k]),
    raw=raw(labels),
  )
  half = dataclasses.replace(
    split,
    num_examples=np.ones(3, np.int64),
    load=lambda k: (X[k][:1], labels[k][:1]),
  )
  dtype = "int32" if num_classes else "float32"
  return tasks.Task(
    name="small",
    description="three clients",
    client_names=("a", "b", "c"),
    train=half,
    test=split,
    element_spec=task.element_spec((2,), y_dtype=dtype),
    num_classes=num_classes,
    keras_model_fn=lambda: dense(3),
    objective=models.number_objective(),
    **changes,
  )


def dense(num_outputs, activation=None, inputs=2):
  x = tf.keras.Input([inputs])
  layer = tf.keras.layers.Dense(num_outputs, activation=activation)
  model = tf.keras.Model(x, layer(x))
  if inputs == 2:
    layer.set_weights([WEIGHTS[:, :num_outputs], np.full(num_outputs, 0.1)])
  return model


def by_numpy(k):
  """Returns a client's accuracy and cross entropy by NumPy, in float64."""
  logits = X[k].astype(np.float64) @ WEIGHTS.astype(np.float64) + 0.1
  y = CLASSES[k]
  losses = -log_softmax(logits, axis=1)[np.arange(len(y)), y]
  return (logits.argmax(1) == y).mean(), losses.mean()


@pytest.mark.parametrize(
  ("activation", "outputs"),
  [(None, "auto"), (None, "logits"), ("softmax", "auto")],
)
@pytest.mark.parametrize("examples_per_call", [1, 5, 10_000])
def test_each_client_has_its_own_accuracy_and_loss(
  monkeypatch, activation, outputs, examples_per_call
):
  monkeypatch.setattr(model_evaluation, "_EXAMPLES_PER_CALL", examples_per_call)
  found = experiments.audit(dense(3, activation), make_task(), outputs=outputs)
  table = found.clients.set_index("client")
  for k, name in enumerate("abc"):
    accuracy, loss = by_numpy(k)
    assert table.loc[name, "num_examples"] == SIZES[k]
    assert table.loc[name, "accuracy"] == accuracy
    assert table.loc[name, "correct"] == round(accuracy * SIZES[k])
    assert table.loc[name, "loss"] == pytest.approx(loss, abs=1e-6)
  assert found.about == "three clients. Test data: 3 clients with 12 examples."


def test_splits():
  model = dense(3)
  test, train, both = (
    experiments.audit(model, make_task(), split=split).clients
    for split in ("test", "train", "all")
  )
  assert train["num_examples"].tolist() == [1, 1, 1]
  assert both["num_examples"].tolist() == [5, 2, 8]
  assert (both["correct"] == train["correct"] + test["correct"]).all()


def test_one_output_is_about_the_second_of_two_classes():
  labels = [y.clip(0, 1) for y in CLASSES]
  for activation in (None, "sigmoid"):
    found = experiments.audit(
      dense(1, activation), make_task(labels, 2)
    ).clients
    for k in range(3):
      logit = X[k].astype(np.float64) @ WEIGHTS[:, 0].astype(np.float64) + 0.1
      p = 1 / (1 + np.exp(-logit))
      loss = -np.log(np.where(labels[k] == 1, p, 1 - p)).mean()
      assert found["accuracy"][k] == ((p > 0.5) == labels[k]).mean()
      assert found["loss"][k] == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("number", [1, 3])
def test_numbers_have_rmse_and_r2_in_their_own_units(number):
  shape = () if number == 1 else (number,)
  labels = [RNG.normal(size=(n, *shape)).astype(np.float32) for n in SIZES]
  numbers = dataclasses.replace(
    make_task(labels, None, label_scale=10.0),
    element_spec=task.element_spec((2,), y_shape=shape, y_dtype="float32"),
  )
  found = experiments.audit(dense(number), numbers)
  for k, size in enumerate(SIZES):
    y = labels[k].reshape(size, number).astype(np.float64)
    errors = X[k] @ WEIGHTS[:, :number] + 0.1 - y
    rmse = 10 * np.sqrt((errors**2).mean())
    np.testing.assert_allclose(found.clients["rmse"][k], rmse, rtol=1e-5)
    total = (y.var(axis=0) * size).sum()  # A single label does not vary.
    r2 = 1 - (errors**2).sum() / total if size > 1 else np.nan
    np.testing.assert_allclose(found.clients["r2"][k], r2, rtol=1e-4)
  assert found.summary["score"] == "rmse"
  worst = found.clients["client"][found.clients["rmse"].argmax()]
  assert f"Worst off is {worst}" in found.describe()
  assert "accuracy" not in found.describe()
  with rejected("model", f"[n, {number}]"):
    experiments.audit(dense(2), numbers)


def test_a_model_of_raw_columns_gets_these():
  width = tf.keras.Input([], name="another_name")
  colour = tf.keras.Input([], dtype=tf.string, name="colour")
  known = tf.keras.layers.StringLookup(vocabulary=["red"], num_oov_indices=1)
  is_red = tf.cast(tf.equal(known(colour), 1), tf.float32)
  model = tf.keras.Model({"width": width, "colour": colour}, 3 * width + is_red)
  # Raw labels are in their own units, whatever the scale of y.
  numbers = make_task(NUMBERS, None, preprocessing=Columns(), label_scale=7.0)
  found = experiments.audit(model, numbers).clients
  for k in range(3):
    outputs = 3 * X[k][:, 0] + (X[k][:, 1] > 0)
    expected = np.sqrt(((outputs - NUMBERS[k]) ** 2).mean())
    assert found["rmse"][k] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["keras", "tf", "export"])
def test_models_come_from_files(tmp_path, kind):
  path = tmp_path / ("m.keras" if kind == "keras" else "m")
  if kind == "export":
    tf.saved_model.save(dense(3), str(path))
    (path / "keras_metadata.pb").unlink(missing_ok=True)
  else:
    dense(3).save(str(path), save_format=kind)
  found = experiments.audit(path, make_task())
  expected = experiments.audit(dense(3), make_task())
  assert found.title == f"Audit of {path.name} on small"
  pd.testing.assert_frame_equal(found.clients, expected.clients)


def test_a_file_of_keras_3_is_named(tmp_path):
  path = tmp_path / "m.keras"
  dense(3).save(str(path))
  with zipfile.ZipFile(path) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  metadata = json.loads(members["metadata.json"])
  members["metadata.json"] = json.dumps(
    {**metadata, "keras_version": "3.4.1"}
  ).encode()
  with zipfile.ZipFile(path, "w") as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  with rejected("model", "Keras 3.4.1", "model.export"):
    experiments.audit(path, make_task())


def test_what_does_not_go_together_is_one_line(tmp_path):
  (tmp_path / "m.keras").write_text("no model")
  os.mkfifo(tmp_path / "pipe.keras")
  broken = dense(3)
  broken.set_weights([WEIGHTS * np.nan, np.zeros(3)])
  small, numbers = make_task(), make_task(NUMBERS, None)
  words = task.element_spec((2,), y_shape=(5,))
  of_words = dataclasses.replace(small, element_spec=words)
  for model, data, field, *facts in (
    (dense(3, inputs=5), small, "model", "[n, 5]", "small", "[n, 2]"),
    (dense(2), small, "model", "[n, 2]", "3 classes"),
    (7, small, "model", "int"),
    ("nowhere.keras", small, "model"),
    (tmp_path / "m.keras", small, "model", "Keras"),
    (tmp_path / "pipe.keras", small, "model", "pipe"),
    (tmp_path, small, "model", "saved_model.pb"),
    (broken, small, "model", "finite"),
    (dense(3), numbers, "model", "[n, 1]"),
    (dense(3), of_words, "task", "labels"),
    (dense(3), "digitz", "task", "digits"),
  ):
    with rejected(field, *facts):
      experiments.audit(model, data)
  with rejected("outputs"):
    experiments.audit(dense(3), small, outputs="probabilities")
  with rejected("split", "test", "train"):
    experiments.audit(dense(3), small, split="half")
