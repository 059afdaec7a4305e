"""The trained model of a run, from the states that its folder keeps."""

from __future__ import annotations

import typing
from typing import Any

import numpy as np
import tensorflow as tf

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checkpoints, configuration
from tff_fair.experiments.runs.folder import RunFolder

if typing.TYPE_CHECKING:
  from tff_fair.experiments.runs.run import Run


def weights(run: Run, *, best: bool) -> list[np.ndarray]:
  """Returns the weights of a run's model; see `Run.weights`."""
  found = _model_weights(_load_state(run, best=best))
  return [w.numpy() for w in (*found.trainable, *found.non_trainable)]


def model(run: Run, *, best: bool) -> tf.keras.Model:
  """Returns a run's model; see `Run.model`."""
  # Imported late: both import TensorFlow Federated, which weights do not need;
  # the runtime sees to its clean end.
  from tff_fair import runtime  # noqa: F401, PLC0415
  from tff_fair.experiments.training import assembly  # noqa: PLC0415

  configuration.check_own_files(run.config, run.spec)
  keras_model = assembly.load_task(run.spec).keras_model_fn()
  variables = (
    *keras_model.trainable_variables,
    *keras_model.non_trainable_variables,
  )
  for variable, value in zip(variables, weights(run, best=best), strict=True):
    variable.assign(value)
  return keras_model


def _load_state(run: Run, *, best: bool) -> Any:
  files = RunFolder(run.path)
  folder = files.best_checkpoint if best else files.checkpoints
  rounds = checkpoints.rounds(folder)
  if not rounds:
    raise RunError(
      f"{folder}: holds no state"
      + ("; a run keeps its best one if it has a criterion." if best else ".")
    )
  return checkpoints.load(checkpoints.path(folder, rounds[-1]))


def _model_weights(state: Any) -> Any:
  """Returns the weights of a state's model, as its process tells them."""
  finalizer = state.finalizer
  # Where the finalizer keeps the mean over the rounds, that is the model.
  if isinstance(finalizer, dict) and "average" in finalizer:
    average = finalizer["average"]
    if average["num_rounds"] > 0:
      return average["weights"]
  return state.global_model_weights
