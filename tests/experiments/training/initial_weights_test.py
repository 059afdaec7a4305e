"""Tests of runs that begin with the weights of a trained model."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks.models import starting
from tests.experiments.training.small_run import SMALL
from tff_fair import experiments
from tff_fair.experiments import FieldError
from tff_fair.experiments.runs import finding
from tff_fair.experiments.training import assembly

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

DENSE = tf.keras.layers.Dense
NORMALIZATION = tf.keras.layers.LayerNormalization


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """A finished run, and its export beside it."""
  folder = tmp_path_factory.mktemp("trained")
  run = experiments.run(SMALL, folder / "run", progress=False)
  experiments.export(run, folder / "exported.keras")
  return run


def clients_after(run, round_num):
  rows = run.client_evaluations
  rows = rows[rows["round"] == round_num]
  return rows.drop(columns="round").reset_index(drop=True)


def test_a_run_begins_with_the_weights_of_another(trained, tmp_path):
  spec = SMALL.replace(
    initial_run=str(trained.path), seed=1, data_seed=0, total_rounds=1
  )
  run = experiments.run(spec, tmp_path / "run", progress=False)
  assert clients_after(run, 0).equals(clients_after(trained, 3))
  assert not clients_after(run, 1).equals(clients_after(trained, 3))
  # The same weights in another file, as one with a softmax.
  exported = trained.path.with_name("exported.keras")
  task = assembly.with_initial_weights(
    SMALL.replace(initial_model=str(exported)),
    tasks.load("digits", **SMALL.task_options),
  )
  config_file = run.path / "config.json"
  config = json.loads(config_file.read_text())
  digest = config["initial_weights"]["sha256"]
  assert digest == starting.digest(task.keras_model_fn)
  assert run.settings["initial_weights"] == digest[:8]
  assert "initial_weights" not in trained.config
  assert experiments.RunSpec.from_toml(spec.to_toml()) == spec
  # As if the other run had gone on meanwhile.
  config["initial_weights"]["sha256"] = "0" * 64
  config_file.write_text(json.dumps(config))
  with pytest.raises(experiments.RunError, match="other initial weights"):
    experiments.run(spec.replace(total_rounds=2), run.path, progress=False)


def with_frozen_layer():
  return tf.keras.Sequential(
    [
      tf.keras.layers.Input([64]),
      NORMALIZATION(trainable=False),
      DENSE(10),
    ]
  )


@pytest.fixture(scope="module")
def task():
  loaded = tasks.load("digits", **SMALL.task_options)
  return dataclasses.replace(loaded, keras_model_fn=with_frozen_layer)


def test_layers_that_are_frozen_have_their_weights(task, tmp_path, monkeypatch):
  expected = [
    np.full(weight.shape, place, np.float32)
    for place, weight in enumerate(with_frozen_layer().weights, 1)
  ]
  model = with_frozen_layer()
  model.set_weights(expected)
  model.save(tmp_path / "model.keras")
  # Runs have the weights that are trained first.
  run = types.SimpleNamespace(
    is_finished=True, weights=lambda: [*expected[2:], *expected[:2]]
  )
  monkeypatch.setattr(finding, "open_run", lambda _: run)
  for settings in (
    {"initial_model": str(tmp_path / "model.keras")},
    {"initial_run": "run"},
  ):
    begun = assembly.with_initial_weights(SMALL.replace(**settings), task)
    for weight, value in zip(
      begun.keras_model_fn().weights, expected, strict=True
    ):
      np.testing.assert_array_equal(weight, value)


def test_weights_that_a_model_cannot_have(trained, task, tmp_path):
  def begin(**settings):
    return assembly.with_initial_weights(SMALL.replace(**settings), task)

  def saved(name, *layers):
    model = tf.keras.Sequential([tf.keras.layers.Input([64]), *layers])
    model.save(tmp_path / name)
    return {"initial_model": str(tmp_path / name)}

  unfinished = tmp_path / "unfinished"
  shutil.copytree(trained.path, unfinished)
  (unfinished / "summary.json").unlink()
  (tmp_path / "text.keras").write_text("no model")
  nan = tf.keras.initializers.Constant(np.nan)
  for settings, expected in (
    ({"initial_model": str(tmp_path / "none.keras")}, "no such file"),
    ({"initial_model": str(tmp_path / "text.keras")}, "cannot be loaded"),
    (saved("2.keras", DENSE(10)), "has 2 arrays .* has 4"),
    (
      saved("9.keras", NORMALIZATION(), DENSE(9)),
      r"array 3 of its weights has the shape \[64, 9\], .*\[64, 10\]",
    ),
    (
      saved("nan.keras", NORMALIZATION(), DENSE(10, bias_initializer=nan)),
      "not finite",
    ),
    ({"initial_run": str(trained.path)}, "has 2 arrays .* has 4"),
    ({"initial_run": str(tmp_path)}, r"config\.json"),
    ({"initial_run": str(unfinished)}, "is not finished"),
  ):
    with pytest.raises(FieldError, match=expected) as caught:
      begin(**settings)
    assert [caught.value.field] == list(settings)
    assert "\n" not in str(caught.value)
  with pytest.raises(FieldError, match="leave one of the two out"):
    begin(initial_model="model.keras", initial_run="run")
  assert begin() is task
