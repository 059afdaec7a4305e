"""The trained model of a run, from the states that its folder keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checkpoints
from tff_fair.experiments.runs.folder import RunFolder

_BATCH = 512  # Examples in a forward pass.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
  """The weights of a run's models, after one of its rounds.

  Attributes:
    round_num: The round.
    trainable: Those of the global model that training changes.
    non_trainable: Its others.
    personal: float[d] by client id, where the method trains personal models:
      the trainable weights one after the other. A client that has not trained
      yet has the global model.
  """

  round_num: int
  trainable: Sequence[np.ndarray]
  non_trainable: Sequence[np.ndarray]
  personal: Mapping[int, np.ndarray] | None

  def of_model(self, client_id: int | None = None) -> list[np.ndarray]:
    """Returns the trainable weights of a model, then its others.

    Args:
      client_id: The client whose personal model it is; by default it is the
        global model.
    """
    table = self.personal or {}
    if client_id is None or client_id not in table:
      return [*self.trainable, *self.non_trainable]
    row = table[client_id]
    ends = np.cumsum([array.size for array in self.trainable])
    parts = np.split(row, ends[:-1])
    return [
      *(
        part.reshape(array.shape)
        for part, array in zip(parts, self.trainable, strict=True)
      ),
      *self.non_trainable,
    ]


def load(folder: RunFolder, *, best: bool) -> Weights:
  """Loads the weights of a run's models.

  Args:
    folder: The folder of the run.
    best: As for `Run.weights`.

  Raises:
    RunError: If the run has not saved them.
  """
  round_num, state = _load_state(folder, best=best)
  found = _model_weights(state)
  return Weights(
    round_num=round_num,
    trainable=[w.numpy() for w in found.trainable],
    non_trainable=[w.numpy() for w in found.non_trainable],
    personal=_personal(state),
  )


def assign(keras_model: tf.keras.Model, values: Sequence[np.ndarray]) -> None:
  """Gives a model its weights.

  Args:
    keras_model: The model.
    values: Its trainable weights, then its others.
  """
  variables = (
    *keras_model.trainable_variables,
    *keras_model.non_trainable_variables,
  )
  for variable, value in zip(variables, values, strict=True):
    variable.assign(value)


def outputs(keras_model: tf.keras.Model, x: np.ndarray) -> np.ndarray:
  """Returns the outputs of a model, float32[n, ...].

  Args:
    keras_model: The model.
    x: Its inputs for n examples.
  """
  batches = [
    keras_model(x[first : first + _BATCH], training=False).numpy()
    for first in range(0, len(x), _BATCH)
  ]
  return np.concatenate(batches)


def _load_state(folder: RunFolder, *, best: bool) -> tuple[int, Any]:
  states = folder.best_checkpoint if best else folder.checkpoints
  rounds = checkpoints.rounds(states)
  if not rounds:
    raise RunError(
      f"{states}: holds no state"
      + ("; a run keeps its best one if it has a criterion." if best else ".")
    )
  return rounds[-1], checkpoints.load(checkpoints.path(states, rounds[-1]))


def _model_weights(state: Any) -> Any:
  """Returns the weights of a state's model, as its process tells them."""
  finalizer = state.finalizer
  # Where the finalizer keeps the mean over the rounds, that is the model.
  if isinstance(finalizer, dict) and "average" in finalizer:
    average = finalizer["average"]
    if average["num_rounds"] > 0:
      return average["weights"]
  return state.global_model_weights


def _personal(state: Any) -> Mapping[int, np.ndarray] | None:
  client_work = state.client_work
  if not isinstance(client_work, dict) or "personal" not in client_work:
    return None
  table = client_work["personal"]
  ids, rows = table["client_id"].numpy(), table["weights"].numpy()
  return dict(zip(ids.tolist(), rows, strict=True))
