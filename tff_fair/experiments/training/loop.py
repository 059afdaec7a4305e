"""The rounds of a training run: resumable, evaluated, repeatable.

Everything it works with is given: the rounds, the evaluation and the managers
that save and release. A round is known by its number and the state before it,
and counts once all that belongs to it is released; so a run that stops anywhere
and goes on from its last saved round ends like one that never stopped.

A thread writes a round while the next one computes, one round at a time: rows
and states come in the order of the rounds, and a state after its rows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import time
import typing
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from tff_fair.experiments import interruption
from tff_fair.experiments.scores import ACCURACY, Score
from tff_fair.experiments.training import rounds, waiting
from tff_fair.experiments.training.selection import Selection

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff


class Schedule(NamedTuple):
  """How long to train, and when to evaluate and save.

  Attributes:
    total_rounds: Number of rounds.
    rounds_per_evaluation: After every so many rounds, and the last, the model
      is evaluated.
    rounds_per_checkpoint: The state is saved after so many rounds, and when the
      loop ends.
  """

  total_rounds: int
  rounds_per_evaluation: int
  rounds_per_checkpoint: int


# Results over clients by name, see `population.summarize`. Some runs have those
# of the global model beside personal ones, or of the honest clients alone, too:
# the groups "global" and "honest".
Summary: TypeAlias = Mapping[str, "float | Mapping[str, float] | Summary"]


class Evaluation(NamedTuple):
  """The model on the test data of clients.

  Attributes:
    summary: Statistics over the clients, by name.
    clients: Columns with one entry per client, in ascending order of client id.
    score: The number by which clients are compared.
  """

  summary: Summary
  clients: Mapping[str, np.ndarray]
  score: Score = ACCURACY

  @property
  def statistics(self) -> Mapping[str, float]:
    """Statistics of the score over the clients, by name."""
    found = self.summary[self.score.name]
    return typing.cast(Mapping[str, float], found)


class Releases(NamedTuple):
  """Where results go; each release has the number of its round as key.

  Attributes:
    metrics: Takes what is reported of a round.
    timing: Takes the seconds that a round took.
    costs: Takes what a round cost.
    cohorts: Takes `Round.clients`.
    summary: Takes `Evaluation.summary`.
    clients: Takes `Evaluation.clients`.
  """

  metrics: tff.program.ReleaseManager
  timing: tff.program.ReleaseManager
  costs: tff.program.ReleaseManager
  cohorts: tff.program.ReleaseManager
  summary: tff.program.ReleaseManager
  clients: tff.program.ReleaseManager


class Pruning(Protocol):
  """Says from the evaluations of a run whether it promises too little."""

  @property
  def is_pruned(self) -> bool:
    """Whether the run is to end."""

  def add(self, round_num: int, clients: Mapping[str, np.ndarray]) -> None:
    """Takes an evaluation: its round, and `Evaluation.clients`."""


_Writing = Callable[[], Coroutine[object, object, None]]


def train(
  training: rounds.Rounds,
  schedule: Schedule,
  *,
  evaluate: Callable[[rounds.State], Evaluation],
  state_manager: tff.program.ProgramStateManager,
  releases: Releases,
  report_progress: Callable[[int, Evaluation | None], None],
  selection: Selection | None = None,
  best_manager: tff.program.ProgramStateManager | None = None,
  pruning: Pruning | None = None,
) -> None:
  """Trains up to the last round, from the last saved one.

  A new run evaluates the model before training as well: that is round 0. It is
  a point to compare with, never the best, nor one that wears out patience.

  Args:
    training: The rounds.
    schedule: How long to train, and when to evaluate and save.
    evaluate: Evaluates a state of the process.
    state_manager: Saves the state of the process under the number of rounds.
    releases: Where results go.
    report_progress: Takes the number of each round and its evaluation, if any;
      first that of round 0, if the run is new.
    selection: Knows the evaluations up to the last saved round, and says when
      to stop. `None` goes on to the last round.
    best_manager: Saves the states at the best evaluations so far.
    pruning: Knows the evaluations up to the last saved round, too.

  Raises:
    KeyboardInterrupt: If a signal came. As with any other exception, the last
      complete round is saved first.
  """
  state = training.initial_state()
  saved_state, completed = waiting.wait(state_manager.load_latest(state))
  saved = completed

  async def write(
    round_num: int,
    result: rounds.Round,
    timing: Mapping[str, float],
    evaluation: Evaluation | None,
    is_best: bool,
  ) -> None:
    nonlocal state, completed, saved
    await _release(releases, round_num, result, timing, evaluation)
    state, completed = result.state, round_num
    if is_best and best_manager is not None:
      await best_manager.save(state, completed)
    # The run never goes on from before its best state.
    if is_best or _is_due(round_num, schedule.rounds_per_checkpoint, schedule):
      await state_manager.save(state, completed)
      saved = completed

  try:
    with _writing_meanwhile() as begin:
      if saved_state is None:
        newest = state
        initial = evaluate(newest)
        begin(functools.partial(_release_evaluation, releases, 0, initial))
        report_progress(0, initial)
      else:
        newest = state = saved_state
      for round_num in range(completed + 1, schedule.total_rounds + 1):
        if selection is not None and selection.is_exhausted:
          break
        if pruning is not None and pruning.is_pruned:
          break
        interruption.check()
        result = training.run(newest, round_num)
        newest = result.state
        timing = {"round_seconds": result.seconds}
        evaluation = None
        if _is_due(round_num, schedule.rounds_per_evaluation, schedule):
          evaluation, timing["evaluation_seconds"] = _timed(evaluate, newest)
        is_best = _is_best(selection, round_num, evaluation)
        begin(
          functools.partial(
            write, round_num, result, timing, evaluation, is_best
          )
        )
        if pruning is not None and evaluation is not None:
          pruning.add(round_num, evaluation.clients)
        report_progress(round_num, evaluation)
  finally:
    if completed > saved:
      with interruption.deferred():
        waiting.wait(state_manager.save(state, completed))


@contextlib.contextmanager
def _writing_meanwhile() -> Iterator[Callable[[_Writing], None]]:
  """Yields a function that begins to write, in a thread of its own.

  It first waits for what it began before, and raises the error of that. When
  the context ends, all is written.
  """
  last: concurrent.futures.Future[None] | None = None

  def begin(writing: _Writing) -> None:
    nonlocal last
    if last is not None:
      last.result()
    with interruption.deferred():
      last = executor.submit(lambda: asyncio.run(writing()))

  with concurrent.futures.ThreadPoolExecutor(max_workers=1) as executor:
    try:
      yield begin
    finally:
      with interruption.deferred():
        if last is not None:
          last.result()


def _timed(
  evaluate: Callable[[rounds.State], Evaluation], state: rounds.State
) -> tuple[Evaluation, float]:
  start = time.perf_counter()
  evaluation = evaluate(state)
  return evaluation, time.perf_counter() - start


def _is_best(
  selection: Selection | None, round_num: int, evaluation: Evaluation | None
) -> bool:
  if selection is None or evaluation is None:
    return False
  return selection.add(round_num, evaluation.statistics)


def _is_due(round_num: int, interval: int, schedule: Schedule) -> bool:
  return round_num == schedule.total_rounds or round_num % interval == 0


async def _release(
  releases: Releases,
  round_num: int,
  result: rounds.Round,
  timing: Mapping[str, float],
  evaluation: Evaluation | None,
) -> None:
  await releases.metrics.release(result.metrics, round_num)
  await releases.timing.release(timing, round_num)
  await releases.costs.release(result.costs, round_num)
  await releases.cohorts.release(result.clients, round_num)
  if evaluation is not None:
    await _release_evaluation(releases, round_num, evaluation)


async def _release_evaluation(
  releases: Releases, round_num: int, evaluation: Evaluation
) -> None:
  await releases.summary.release(evaluation.summary, round_num)
  await releases.clients.release(evaluation.clients, round_num)
