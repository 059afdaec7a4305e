"""Initial weights from a trained model: a file's, or another run's."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

import tasks
from tasks.models import starting
from tasks.task import KerasModelFn
from tff_fair.declared import FieldError
from tff_fair.experiments import keras_files
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import architecture, finding
from tff_fair.experiments.spec import RunSpec


def begin(spec: RunSpec, task: tasks.Task) -> tasks.Task:
  """Returns a task whose model begins with the weights that a run names.

  Args:
    spec: The run; it may name none.
    task: Its task.

  Raises:
    FieldError: If they cannot be read, or are not those of the task's model.
  """
  name = "initial_run" if spec.initial_model is None else "initial_model"
  place = getattr(spec, name)
  if place is None:
    return task
  path, build = pathlib.Path(place).expanduser(), task.keras_model_fn
  read = _of_run if spec.initial_model is None else _of_file
  try:
    weights = read(path, build)
    if not all(np.isfinite(value).all() for value in weights):
      raise ValueError("has weights that are not finite.")
    begun = starting.Starting.of(build, weights)
  except (RunError, ValueError) as error:
    problem = str(error).removeprefix(f"{path}: ")
    raise FieldError(name, problem, value=place) from error
  return dataclasses.replace(task, keras_model_fn=begun)


def _of_file(path: pathlib.Path, _: KerasModelFn) -> Sequence[np.ndarray]:
  """Returns the weights of a file, in the order of the model's layers."""
  model = keras_files.load(path)
  # The model of an export, without what is around it.
  for layer in model.layers:
    if layer.name == architecture.TRAINED:
      model = layer
  return [weight.numpy() for weight in model.weights]


def _of_run(path: pathlib.Path, build: KerasModelFn) -> Sequence[np.ndarray]:
  """Returns the weights of a run, in the order of the model's layers."""
  run = finding.open_run(path)
  if not run.is_finished:
    raise ValueError("is not finished; finish that run, or choose another.")
  weights = run.weights()
  with tf.Graph().as_default():
    model = build()
  saved = [*model.trainable_weights, *model.non_trainable_weights]
  if len(saved) != len(weights):
    return weights  # Nobody knows the order of another model.
  place_of = {id(variable): place for place, variable in enumerate(saved)}
  return [weights[place_of[id(variable)]] for variable in model.weights]
