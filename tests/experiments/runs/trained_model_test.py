"""Tests of the description of the model in a run's folder."""

import numpy as np
import pytest

import tasks
from tests.experiments.training import small_run
from tff_fair import experiments
from tff_fair.experiments.runs.trained_model import Architecture

pytestmark = pytest.mark.program


def test_layers_are_called_the_same_whatever_was_built_before(tmp_path):
  task = tasks.load("digits")
  files = [tmp_path / "first.json", tmp_path / "second.json"]
  for path in files:
    task.keras_model_fn()
    Architecture.of_task(task).write(path)
  first, second = (path.read_bytes() for path in files)
  assert first == second


_MODELS = """
import tensorflow as tf

def build(input_shape, num_classes):
  x = tf.keras.Input(input_shape)
  rows = tf.keras.layers.Reshape([8, 8])(x)
  rows = LAYER
  rows = tf.keras.layers.Flatten()(rows)
  return tf.keras.Model(x, tf.keras.layers.Dense(num_classes)(rows))
"""


def trained(folder, layer):
  """Trains a model of a user's file that has `layer`; returns the run."""
  (folder / "model.py").write_text(_MODELS.replace("LAYER", layer))
  spec = experiments.RunSpec(
    task="digits",
    model=f"{folder / 'model.py'}:build",
    algorithm="fedavg",
    clients_per_round=3,
    total_rounds=1,
  )
  return small_run.train(spec, folder / "run", progress=True)


def check_opens(run, folder, suffix):
  x = np.ones([2, 64], np.float32)
  model = run.model()
  for weight, value in zip(model.get_weights(), run.weights(), strict=True):
    np.testing.assert_array_equal(weight, value)
  found = experiments.export(run, folder / f"exported{suffix}")
  assert found.path.exists()
  assert np.isfinite(model(x)).all()


@pytest.mark.long
def test_a_model_with_attention_is_held_by_the_folder(tmp_path, capfd):
  run = trained(
    tmp_path, "tf.keras.layers.MultiHeadAttention(2, 4)(rows, rows)"
  )
  assert "cannot hold" not in capfd.readouterr().err
  check_opens(run, tmp_path, ".keras")
  (tmp_path / "model.py").unlink()
  assert experiments.open_run(run.path).model().count_params()


@pytest.mark.long
def test_a_model_with_a_lambda_comes_from_its_file(tmp_path, capfd):
  run = trained(tmp_path, "tf.keras.layers.Lambda(lambda x: 2 * x)(rows)")
  said = capfd.readouterr().err
  place, first = (
    said.index(f"{tmp_path / 'model.py'}:build"),
    said.index("new r"),
  )
  assert "Lambda" in said[:place]
  assert place < first
  check_opens(run, tmp_path, "")
  with pytest.raises(experiments.FieldError, match="savedmodel"):
    experiments.export(run, tmp_path / "model.keras")


@pytest.mark.usefixtures("compiled_once", "unpainted")
def test_without_its_description_a_model_comes_from_the_task(tmp_path):
  run = small_run.train(small_run.SMALL, tmp_path / "run")
  weights = run.model().get_weights()
  (run.path / "model.json").unlink()
  again = experiments.open_run(run.path).model().get_weights()
  for weight, value in zip(again, weights, strict=True):
    np.testing.assert_array_equal(weight, value)
