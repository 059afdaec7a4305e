"""Tests of what a run's folder says of its model."""

import tasks
from tff_fair.experiments.runs.trained_model import Architecture


def test_layers_are_called_the_same_whatever_was_built_before(tmp_path):
  task = tasks.load("digits")
  files = [tmp_path / "first.json", tmp_path / "second.json"]
  for path in files:
    task.keras_model_fn()
    Architecture.of_task(task).write(path)
  first, second = (path.read_bytes() for path in files)
  assert first == second
