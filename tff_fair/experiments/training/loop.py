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
import dataclasses
import itertools
import math
import time
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import (
  NamedTuple,
  ParamSpec,
  Protocol,
  Self,
  TypeAlias,
  TypeVar,
)

import numpy as np

from tff_fair.experiments import interruption
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.training import rounds

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff

# The group of results on validation data.
VALIDATION = "validation"

# The best evaluation of a run so far, and whether it is worth going on.


@dataclasses.dataclass
class Selection:
  """Follows the evaluations of a run.

  Attributes:
    criterion: The statistic of the score that is to be good, as "worst_10".
    patience: How many evaluations in a row may bring no improvement before the
      run is to stop; `None` lets it go on.
    round_num: The round of the best evaluation, the first of equals; `None`
      before there is any.
    value: Its criterion.
    num_without_improvement: How many evaluations there were since.
    score: The score of the run.
    on_validation: Whether evaluations on validation data decide.
  """

  criterion: str
  patience: int | None = None
  round_num: int | None = None
  value: float = math.nan
  num_without_improvement: int = 0
  score: Score = ACCURACY
  on_validation: bool = False

  @property
  def column(self) -> str:
    """The column of the table of evaluations that it follows."""
    group = f"{VALIDATION}/" if self.on_validation else ""
    return f"{group}{self.score.name}/{self.criterion}"

  def add(self, round_num: int, statistics: Mapping[str, float]) -> bool:
    """Takes an evaluation, and returns whether it is the best so far.

    Args:
      round_num: Its round.
      statistics: Those of the score over the clients, by name. One that is not
        finite is never the best.
    """
    value = float(statistics[self.criterion])
    if math.isfinite(value) and (
      self.round_num is None or self.score.is_better(value, self.value)
    ):
      self.round_num, self.value = round_num, value
      self.num_without_improvement = 0
      return True
    self.num_without_improvement += 1
    return False

  @property
  def is_exhausted(self) -> bool:
    """Whether the run is to stop."""
    return (
      self.patience is not None
      and self.num_without_improvement >= self.patience
    )


_P = ParamSpec("_P")
_T = TypeVar("_T")


class Schedule(NamedTuple):
  """How long to train, and when to evaluate and save.

  Attributes:
    total_rounds: Number of rounds.
    rounds_per_evaluation: After every so many rounds, and the last, the model
      is evaluated.
    rounds_per_checkpoint: The state is saved after so many rounds, and when the
      loop ends.
    stop_at_stationarity: The first round whose Pareto stationarity is this or
      less is the last one; `None` takes all.
    before_joining: The rounds after which clients join; the model is evaluated
      then, too.
  """

  total_rounds: int
  rounds_per_evaluation: int
  rounds_per_checkpoint: int
  stop_at_stationarity: float | None = None
  before_joining: Sequence[int] = ()

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
    """Returns the last round up to one after which the model is evaluated."""
    if round_num == self.total_rounds:
      return round_num
    regular = round_num - round_num % self.rounds_per_evaluation
    return max(regular, *(n for n in self.before_joining if n <= round_num), 0)

  def after(self, round_num: int, stationarity: float | None) -> Self:
    """Returns the schedule that a round leaves.

    Args:
      round_num: The round.
      stationarity: Its Pareto stationarity, if it was measured.
    """
    bound = self.stop_at_stationarity
    if bound is None or stationarity is None or stationarity > bound:
      return self
    return self._replace(total_rounds=min(round_num, self.total_rounds))


# Results over clients by name, see `population.summarize`. Some runs have those
# of the global model beside personal ones, of the honest clients alone, or on
# validation data, too: the groups "global", "honest" and "validation".
Summary: TypeAlias = Mapping[str, "float | Mapping[str, float] | Summary"]


class RoundEvaluation(NamedTuple):
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
    return self._statistics(self.summary)

  @property
  def deciding(self) -> Mapping[str, float]:
    """Those that choose: on validation data, if there are such."""
    found = self.summary.get(VALIDATION, self.summary)
    return self._statistics(typing.cast(Summary, found))

  def _statistics(self, summary: Summary) -> Mapping[str, float]:
    return typing.cast(Mapping[str, float], summary[self.score.name])


class Releases(NamedTuple):
  """Where results go; each release has the number of its round as key.

  Attributes:
    metrics: Takes what is reported of a round.
    timing: Takes the seconds that a round took.
    costs: Takes what a round cost.
    cohorts: Takes `Round.clients`.
    summary: Takes `RoundEvaluation.summary`.
    clients: Takes `RoundEvaluation.clients`.
    tape: Takes `Round.tape`, of the rounds that have one.
  """

  metrics: tff.program.ReleaseManager
  timing: tff.program.ReleaseManager
  costs: tff.program.ReleaseManager
  cohorts: tff.program.ReleaseManager
  summary: tff.program.ReleaseManager
  clients: tff.program.ReleaseManager
  tape: tff.program.ReleaseManager


class Pruner(Protocol):
  """Says from the evaluations of a run whether it promises too little."""

  @property
  def is_pruned(self) -> bool:
    """Whether the run is to end."""

  def add(
    self, round_num: int, clients: Mapping[str, np.ndarray], score: Score
  ) -> None:
    """Takes an evaluation: its round, and those fields of `RoundEvaluation`."""


def train(
  training: rounds.Rounds,
  schedule: Schedule,
  *,
  evaluate: Callable[[rounds.State], RoundEvaluation],
  state_manager: tff.program.ProgramStateManager,
  releases: Releases,
  report_progress: Callable[[int, RoundEvaluation | None], None],
  selection: Selection | None = None,
  best_manager: tff.program.ProgramStateManager | None = None,
  pruning: Pruner | None = None,
) -> None:
  """Trains up to the last round, from the last saved one.

  A new run evaluates the model before training as well: that is round 0. It is
  a point to compare with. It is never the best round, and early stopping does
  not count it.

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
  with _Record(schedule, state_manager, best_manager, releases) as record:
    state, completed = record.load(training.initial_state())
    if completed is None:
      completed, initial = 0, evaluate(state)
      record.begin(record.write_evaluation, 0, initial)
      report_progress(0, initial)
    for round_num in itertools.count(completed + 1):
      if (
        round_num > schedule.total_rounds
        or (selection is not None and selection.is_exhausted)
        or (pruning is not None and pruning.is_pruned)
      ):
        break
      interruption.check()
      result = training.run(state, round_num)
      state = result.state
      schedule = record.schedule = schedule.after(
        round_num, result.stationarity
      )
      timing = {"round_seconds": result.seconds}
      evaluation = None
      if schedule.evaluates(round_num):
        start = time.perf_counter()
        evaluation = evaluate(state)
        timing["evaluation_seconds"] = time.perf_counter() - start
      is_best = (
        selection is not None
        and evaluation is not None
        and selection.add(round_num, evaluation.deciding)
      )
      record.begin(
        record.write_round, round_num, result, timing, evaluation, is_best
      )
      if pruning is not None and evaluation is not None:
        pruning.add(round_num, evaluation.clients, evaluation.score)
      report_progress(round_num, evaluation)


class _Record:
  """What is written of a run: by a thread, while the next round computes.

  Before the loop begins to write, it waits for what was begun before, and gets
  the error of that. When the context ends, all is written, and the last
  complete round is saved, however it ends.

  Attributes:
    schedule: When states are saved.
  """

  def __init__(
    self,
    schedule: Schedule,
    states: tff.program.ProgramStateManager,
    best_states: tff.program.ProgramStateManager | None,
    releases: Releases,
  ) -> None:
    self.schedule = schedule
    self._states = states
    self._best_states = best_states
    self._releases = releases
    # The last complete round and the state after it, and the last saved round.
    self._state: rounds.State | None = None
    self._completed = self._saved = 0
    self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    self._last: concurrent.futures.Future[None] | None = None

  def load(self, initial: rounds.State) -> tuple[rounds.State, int | None]:
    """Returns the last saved state, and its round.

    Args:
      initial: The state before the first round, which is returned, with `None`,
        if no round is saved.
    """
    saved, self._saved = self._wait(self._states.load_latest(initial))
    self._completed = self._saved
    return (initial, None) if saved is None else (saved, self._saved)

  def begin(
    self,
    write: Callable[_P, Coroutine[object, object, None]],
    *args: _P.args,
    **keywords: _P.kwargs,
  ) -> None:
    """Begins to write, by one of the functions below."""
    if self._last is not None:
      self._last.result()
    with interruption.deferred():
      self._last = self._thread.submit(
        lambda: asyncio.run(write(*args, **keywords))
      )

  async def write_round(
    self,
    round_num: int,
    result: rounds.Round,
    timing: Mapping[str, float],
    evaluation: RoundEvaluation | None,
    is_best: bool,
  ) -> None:
    """Writes a round, and the state after it if that is due."""
    releases = self._releases
    await releases.metrics.release(result.metrics, round_num)
    await releases.timing.release(timing, round_num)
    await releases.costs.release(result.costs, round_num)
    await releases.cohorts.release(result.clients, round_num)
    if result.tape:
      await releases.tape.release(result.tape, round_num)
    if evaluation is not None:
      await self.write_evaluation(round_num, evaluation)
    self._state, self._completed = result.state, round_num
    if is_best and self._best_states is not None:
      await self._best_states.save(self._state, round_num)
    # The run never goes on from before its best state.
    if is_best or self.schedule.saves(round_num):
      await self._states.save(self._state, round_num)
      self._saved = round_num

  async def write_evaluation(
    self, round_num: int, evaluation: RoundEvaluation
  ) -> None:
    """Writes an evaluation."""
    await self._releases.summary.release(evaluation.summary, round_num)
    await self._releases.clients.release(evaluation.clients, round_num)

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    try:
      with interruption.deferred():
        if self._last is not None:
          self._last.result()
    finally:
      with self._thread:
        if self._completed > self._saved:
          with interruption.deferred():
            self._wait(self._states.save(self._state, self._completed))

  def _wait(self, coroutine: Coroutine[object, object, _T]) -> _T:
    """Returns the result of a coroutine, which runs in the thread.

    The caller's has its signals, and in a notebook an event loop.
    """
    return self._thread.submit(lambda: asyncio.run(coroutine)).result()
