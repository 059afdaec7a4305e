"""Computes a round's client updates again, for callbacks that want them.

The round is repeated with stacked aggregation, which keeps each update.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tff_fair import summing
from tff_fair.declared import FieldError
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import build, learning_process, rounds
from tff_fair.experiments.training.callbacks import UPDATES, RoundCallback
from tff_fair.experiments.training.round_state import ClientUpdates, RoundState

_NOT_SIGNALS = (
  *("client_id", "weight", "gram", "coefficients", "slopes"),
  *("direction", "direction_norm", "updates", "squared_norm"),
)


def check_visible(spec: RunSpec) -> None:
  """Raises a `FieldError` if a setting hides client updates from callbacks."""
  try:
    spec.replace(save_updates=1)
  except FieldError as error:
    raise FieldError("callbacks", f"one {error.problem}") from error


def build_updates(
  spec: RunSpec, parts: build.RunParts, initial: Callable[[], rounds.State]
) -> Callable[[rounds.State, list[Any]], ClientUpdates]:
  """Returns a function from a state and a cohort's data to client updates."""

  @functools.cache
  def stacking_process() -> tuple[rounds.Process, rounds.State]:
    process = learning_process.build(
      spec,
      parts.task,
      parts,
      cache=parts.cache,
      aggregation=summing.STACKED,
      tape=UPDATES,
      defence=None,
    ).process
    state = process.initialize()
    # This process measures all signals, for which clients also receive the
    # initial weights.
    distributor = type(state.distributor)(
      known=np.int32(1), weights=initial().global_model_weights
    )
    return process, state._replace(distributor=distributor)

  def updates(state: rounds.State, data: list[Any]) -> ClientUpdates:
    process, first = stacking_process()
    begun = first._replace(
      global_model_weights=state.global_model_weights,
      client_work=state.client_work,
    )
    tape = rounds.tape_entries(process.next(begun, data).metrics)
    return ClientUpdates(
      np.asarray(tape["client_id"]),
      np.asarray(tape["updates"]),
      {
        name: np.asarray(value)
        for name, value in tape.items()
        if name not in _NOT_SIGNALS
      },
    )

  return updates


class UpdateSaver(RoundCallback):
  """Writes the updates of every n-th round into the run's folder."""

  wants = frozenset({UPDATES})

  def __init__(self, folder: RunFolder, every: int) -> None:
    self._folder = folder
    self._every = every

  def on_round(self, state: RoundState) -> None:
    """Writes the round's updates if its number is a multiple of `every`."""
    if state.round_num % self._every:
      return
    client_id, updates, signals = state.updates
    self._folder.check_place()
    array_files.write(
      self._folder.updates / f"round_{state.round_num:06}.npz",
      {"client_id": client_id, "updates": updates, **signals},
    )
