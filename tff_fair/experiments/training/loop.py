"""Trains and evaluates the rounds of a run, so that it can resume exactly.

The loop gets everything as arguments: the rounds, the evaluation, the store of
saved states, and callbacks. A round depends only on its number and the state
before it, and is complete once all its output is written. So a run that stops
anywhere and resumes from its last saved round ends like one that never stopped.

While a round computes, a thread writes the output of the previous round: first
its rows, then its state. So rows and states follow the order of the rounds.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

from tff_fair.experiments import interruption
from tff_fair.experiments.training import rounds
from tff_fair.experiments.training.callbacks import Callbacks
from tff_fair.experiments.training.round_state import (
  CallbackStates,
  RoundEvaluation,
  RoundState,
)

EvaluateFn: TypeAlias = Callable[[Any], RoundEvaluation]


class Schedule(NamedTuple):
  """How long to train, and when to evaluate and save."""

  total_rounds: int
  rounds_per_evaluation: int  # The last round is always evaluated.
  rounds_per_checkpoint: int  # The last round is always saved.
  # The rounds after which clients join.
  rounds_before_joining: Sequence[int] = ()

  def evaluates(self, round_num: int) -> bool:
    """Returns whether the model is evaluated after a round."""
    return self.last_evaluation(round_num) == round_num

  def saves(self, round_num: int) -> bool:
    """Returns whether the state is saved after a round."""
    return (
      round_num == self.total_rounds
      or round_num % self.rounds_per_checkpoint == 0
    )

  def last_evaluation(self, round_num: int) -> int:
    """Returns the last evaluated round that is at most `round_num`."""
    if round_num == self.total_rounds:
      return round_num
    regular = round_num - round_num % self.rounds_per_evaluation
    return max(
      regular, *(n for n in self.rounds_before_joining if n <= round_num), 0
    )

  def ending_after(self, round_num: int) -> Self:
    """Returns the schedule of a run that ends after `round_num` or earlier."""
    return self._replace(total_rounds=min(max(round_num, 1), self.total_rounds))


class StateStore:
  """The interface of stores for a run's states; this class stores nothing."""

  def load_latest(self, initial: Any) -> tuple[Any, int, CallbackStates | None]:
    """Returns the last saved process state, its round, and callback states.

    Without a saved state, returns `initial`, 0 and None.
    """
    return initial, 0, None

  def save(self, state: RoundState) -> None:
    """Does nothing; derived classes save the state."""


def train(
  training: rounds.RoundRunner,
  schedule: Schedule,
  *,
  evaluate: EvaluateFn,
  states: StateStore,
  callbacks: Callbacks,
) -> Schedule:
  """Trains the rounds after the last saved one.

  Returns the schedule, which a callback may have shortened.
  """
  process_state, completed, saved = states.load_latest(training.initial_state())
  with _BackgroundWriter(states, callbacks) as record:
    if saved is not None:
      callbacks.restore(saved)
    if callbacks.verdict == "stop":
      schedule = schedule.ending_after(completed)
    if not completed:
      state = training.make_round_state(process_state, 0)
      state.evaluation = evaluate(process_state)
      callbacks.dispatch("on_evaluation", state)
      record.submit(state)
    for round_num in itertools.count(completed + 1):
      if round_num > schedule.total_rounds or callbacks.verdict == "prune":
        break
      interruption.check()
      state = training.run(process_state, round_num)
      process_state = state.process_state
      callbacks.dispatch("on_round", state)
      if callbacks.verdict == "stop":
        schedule = schedule.ending_after(round_num)
      if schedule.evaluates(round_num):
        start = time.perf_counter()
        state.evaluation = evaluate(process_state)
        state.timing["evaluation_seconds"] = time.perf_counter() - start
        callbacks.dispatch("on_evaluation", state)
        if callbacks.verdict == "stop":
          schedule = schedule.ending_after(round_num)
      # A run must not resume before its best round, so save that one, too.
      state.is_saved = state.is_best or schedule.saves(round_num)
      state.saved_callbacks = callbacks.collect_states()
      record.submit(state)
  return schedule


class _BackgroundWriter:
  """Writes each round's output in a thread, while the next round computes."""

  def __init__(self, states: StateStore, callbacks: Callbacks) -> None:
    self._states = states
    self._writers = callbacks.writers
    # The last complete round, if it is not saved yet.
    self._unsaved: RoundState | None = None
    self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    self._last: concurrent.futures.Future[None] | None = None

  def submit(self, state: RoundState) -> None:
    if self._last is not None:
      self._last.result()
    with interruption.defer():
      self._last = self._thread.submit(self._write, state)

  def _write(self, state: RoundState) -> None:
    for writer in self._writers:
      writer.write(state)
    if state.round_num:
      self._unsaved = state
    if state.is_saved:
      self._save(state)

  def _save(self, state: RoundState) -> None:
    self._states.save(state)
    self._unsaved = None

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    try:
      with interruption.defer():
        if self._last is not None:
          self._last.result()
    finally:
      with self._thread:
        if self._unsaved is not None:
          with interruption.defer():
            # Save in the other thread, as this one may get signals or run an
            # event loop.
            self._thread.submit(self._save, self._unsaved).result()
