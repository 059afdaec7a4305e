"""Saves a run's states, from which it can resume, and writes its tape."""

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import pathlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.experiments.errors import DamageError, RunError
from tff_fair.experiments.runs import array_files, checkpoints, tape_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import loop, rounds
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import CallbackStates, RoundState
from tff_fair.files import atomic

# A run resumes from the last state or, if that is damaged, from the one before.
_NUM_CHECKPOINTS = 2
_CALLBACKS = "callbacks.npz"
_VALUES = "values"  # The array with all values except arrays, as JSON.
_T = TypeVar("_T")


class Checkpoints(loop.StateStore):
  """Keeps a run's last two states; even a power cut leaves them complete."""

  def __init__(
    self,
    path: pathlib.Path,
    tables: Sequence[pathlib.Path] = (),
    check: Callable[[], None] = lambda: None,
    record: Callable[[], None] = lambda: None,
  ) -> None:
    self._path = path
    self._tables = tables
    self._check = check
    self._record = record

  def save(self, state: RoundState) -> None:
    """Saves a state, after syncing the tables so that its rows are on disk."""
    self._check()
    for table in self._tables:
      if table.exists():
        atomic.sync(table)
    place = checkpoints.path(self._path, state.round_num)
    with atomic.move_when_complete(place, self._check) as staged:
      manager = _manager(staged.parent)
      with _silence_info_logs():
        _run_coroutine(manager.save(state.process_state, state.round_num))
      if state.saved_callbacks is not None and any(state.saved_callbacks):
        _write_callbacks(staged / _CALLBACKS, state.saved_callbacks)
      checkpoints.write_checksums(staged)
      # Remove old states first, so that a kill does not leave one too many.
      for old in checkpoints.saved_rounds(self._path)[: 1 - _NUM_CHECKPOINTS]:
        atomic.remove_folder(checkpoints.path(self._path, old))
    self._record()

  def load_latest(
    self, initial: rounds.State
  ) -> tuple[rounds.State, int, CallbackStates | None]:
    """Returns the last saved state, as `StateStore.load_latest` does."""
    saved = checkpoints.saved_rounds(self._path)
    if not saved:
      return super().load_latest(initial)
    round_num = saved[-1]
    try:
      found = _run_coroutine(_manager(self._path).load(round_num, initial))
    except (TypeError, ValueError) as error:
      raise RunError(
        f"{self._path.parent}: the state saved after round {round_num} does "
        "not fit this process: another version of the programs wrote it. Go on "
        "with that version, or start anew in another folder."
      ) from error
    state = checkpoints.path(self._path, round_num)
    return found, round_num, _read_callbacks(state / _CALLBACKS)


def stop_round(folder: RunFolder) -> int | None:
  """Returns the round after which a callback ended the run, if one did."""
  with contextlib.suppress(DamageError):  # `resume.roll_back` reports it.
    for round_num in checkpoints.saved_rounds(folder.checkpoints)[-1:]:
      state = checkpoints.path(folder.checkpoints, round_num)
      if _read_callbacks(state / _CALLBACKS).stop:
        return round_num
  return None


def _manager(path: pathlib.Path) -> tff.program.FileProgramStateManager:
  return tff.program.FileProgramStateManager(path, prefix=checkpoints.PREFIX)


def _run_coroutine(coroutine: Coroutine[object, object, _T]) -> _T:
  """Runs a coroutine in a new thread, as this one may run an event loop."""
  with concurrent.futures.ThreadPoolExecutor(1) as thread:
    return thread.submit(lambda: asyncio.run(coroutine)).result()


@contextlib.contextmanager
def _silence_info_logs() -> Iterator[None]:
  """Silences TensorFlow's message about each file, which notebooks show."""
  logger = tf.get_logger()
  level = logger.level
  logger.setLevel(max(level, logging.WARNING))
  try:
    yield
  finally:
    logger.setLevel(level)


class BestStateSaver(Writer):
  """Saves the states of a run at its best evaluations."""

  def __init__(self, states: Checkpoints) -> None:
    self._states = states

  def write(self, state: RoundState) -> None:
    """Saves a state if its evaluation is the best so far."""
    if state.is_best:
      self._states.save(state)


def _write_callbacks(path: pathlib.Path, saved: CallbackStates) -> None:
  arrays: dict[str, np.ndarray] = {}
  values: dict[str, dict[str, Any]] = {}
  for name, state in saved.states.items():
    values[name] = {}
    for key, value in state.items():
      if isinstance(value, np.ndarray):
        arrays[f"{name}/{key}"] = value
      else:
        values[name][key] = value
  text = json.dumps({"states": values, "stop": saved.stop})
  np.savez(path, **{_VALUES: np.array(text)}, **arrays)


def _read_callbacks(path: pathlib.Path) -> CallbackStates:
  """Returns the callbacks' saved states; empty if the file does not exist."""
  if not path.exists():
    return CallbackStates()
  with array_files.read(path) as arrays:
    found = json.loads(str(arrays.pop(_VALUES)))
    states: Mapping[str, dict[str, Any]] = found["states"]
    for place, array in arrays.items():
      name, _, key = place.partition("/")
      states[name][key] = array
    return CallbackStates(states, str(found["stop"]))


class TapeWriter(Writer):
  """Writes the first rounds of a run to its tape."""

  def __init__(self, folder: RunFolder, num_rounds: float) -> None:
    self._folder = folder
    self._recorder = tape_files.Recorder(folder)
    self._num_rounds = num_rounds

  def write(self, state: RoundState) -> None:
    """Adds the arrays of a round if it is one of the first `num_rounds`."""
    if state.tape and state.round_num <= self._num_rounds:
      self._folder.check_place()
      self._recorder.write(state.round_num, state.tape)
