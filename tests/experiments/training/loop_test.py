"""Tests of the loop by itself, with a fake process and fake writers."""

import copy
import math
import signal
import threading
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from tests.experiments.training import rounds_test
from tff_fair.experiments import RoundCallback, RunSpec, interruption
from tff_fair.experiments.spec.scores import RMSE
from tff_fair.experiments.training import loop, rounds, sampling
from tff_fair.experiments.training.callbacks import Callbacks, Writer
from tff_fair.experiments.training.early_stopping import (
  BestEvaluationTracker,
  StationarityStop,
)
from tff_fair.experiments.training.round_state import RoundEvaluation

NUM_CLIENTS = 7


class State(NamedTuple):
  weights: float


class Output(NamedTuple):
  state: State
  metrics: dict


class Process(rounds_test.Process):
  """A process whose weights depend on the cohorts and their order."""

  def __init__(self, fail_in_call=None, error=None, aggregator=None):
    self.num_calls = 0
    self._aggregator = aggregator
    self._fail_in_call = fail_in_call
    self._error = error

  def initialize(self):
    return State(1.0)

  def next(self, state, client_data):
    self.num_calls += 1
    if self.num_calls == self._fail_in_call:
      raise self._error
    weights = state.weights / 3 + sum(client_data)
    metrics = {"weights": weights}
    if self._aggregator is not None:
      metrics["aggregator"] = self._aggregator(self.num_calls)
    return Output(State(weights), metrics)


class States:
  """Keeps states in memory, beyond the end of a loop."""

  def __init__(self):
    self.saved = {}

  def load_latest(self, initial):
    if not self.saved:
      return initial, 0, None
    last = max(self.saved)
    found, callbacks = copy.deepcopy(self.saved[last])
    return found, last, callbacks

  def save(self, state):
    assert state.round_num not in self.saved
    self.saved[state.round_num] = copy.deepcopy(
      (state.process_state, state.saved_callbacks)
    )


class Table(Writer):
  """Keeps rows instead of writing them; calls `act` before each row."""

  def __init__(self, act=lambda _: None):
    self.rows, self.best = {}, {}
    self._act = act

  def write(self, state):
    self._act(state.round_num)
    evaluation = state.evaluation and state.evaluation.summary
    self.rows[state.round_num] = (
      state.process_state,
      dict(state.metrics),
      dict(state.costs),
      evaluation,
    )
    if state.is_best:
      self.best[state.round_num] = state.process_state


SCHEDULE = loop.Schedule(10, 4, 3)


def test_the_model_is_evaluated_before_clients_join():
  schedule = SCHEDULE._replace(rounds_before_joining=[1, 5])
  evaluated = [n for n in range(1, 11) if schedule.evaluates(n)]
  assert evaluated == [1, 4, 5, 8, 10]
  last = [schedule.last_evaluation(n) for n in range(11)]
  assert last == [
    max([0, *(e for e in evaluated if e <= n)]) for n in range(11)
  ]


def evaluated(state):
  weights = state.weights
  return RoundEvaluation({"twice": 2 * weights}, {"all": np.array(weights)})


class Run:
  """The parts of a run that outlive an interruption."""

  def __init__(self, **settings):
    self.schedule = SCHEDULE._replace(**settings)
    self.states, self.table, self.timing = States(), Table(), {}

  def train(self, process=None, evaluate=None, table=None, callbacks=()):
    table = table or Table()
    try:
      with Callbacks([*callbacks, table], say=print) as followed:
        followed.start(SimpleNamespace(rows=self.table.rows))
        loop.train(
          rounds.RoundRunner(
            process=process or Process(),
            sample=sampling.Sampler(RunSpec(seed=5), 3, np.ones(NUM_CLIENTS)),
            train_data=rounds_test.Data(lambda k: k + 0.1),
            last_round=10,
            costs=lambda state, cohort: {"paid": state.weights + len(cohort)},
            num_examples=np.ones(9),
          ),
          self.schedule,
          evaluate=evaluate or evaluated,
          states=self.states,
          callbacks=followed,
        )
    finally:
      self.table.rows |= table.rows
      self.table.best |= table.best


@pytest.fixture(scope="module")
def uninterrupted():
  run = Run()
  run.train()
  return run


def test_rounds_are_written_in_order_and_evaluated_every_so_often(
  uninterrupted,
):
  rows = uninterrupted.table.rows
  assert list(rows) == list(range(11))
  evaluations = {n: found for n, (*_, found) in rows.items() if found}
  assert evaluations == {
    n: {"twice": 2 * rows[n][0].weights} for n in (0, 4, 8, 10)
  }
  for state, metrics, *_ in list(rows.values())[1:]:
    assert metrics["weights"] == state.weights
  assert {n: state for n, (state, _) in uninterrupted.states.saved.items()} == {
    n: rows[n][0] for n in (3, 6, 9, 10)
  }


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", range(1, 11))
def test_what_stops_in_a_round_goes_on_from_the_one_before(
  uninterrupted, call, error
):
  run = Run()
  with pytest.raises(type(error)):
    run.train(Process(call, error))
  assert max(run.states.saved, default=0) == call - 1
  second = Process()
  run.train(second)
  assert second.num_calls == 10 - (call - 1)
  assert run.table.rows == uninterrupted.table.rows
  assert run.states.saved[10] == uninterrupted.states.saved[10]


def test_a_round_whose_evaluation_stops_is_done_again(uninterrupted):
  run = Run()

  def stop(state):
    if state.weights != 1.0:
      raise interruption.Interrupted(signal.SIGINT)
    return evaluated(state)

  with pytest.raises(interruption.Interrupted):
    run.train(evaluate=stop)
  assert max(run.states.saved) == 3
  run.train()
  assert run.table.rows == uninterrupted.table.rows


@pytest.mark.parametrize("round_num", [0, 1, 4, 6, 10])
def test_a_signal_lets_a_round_be_written_and_saves_it(
  uninterrupted, round_num
):
  def act(number):
    if number == round_num:
      signal.raise_signal(signal.SIGTERM)

  run = Run()
  with interruption.raise_on_signal(), pytest.raises(interruption.Interrupted):
    run.train(table=Table(act))
  assert max(run.states.saved, default=0) == round_num
  run.train()
  assert run.table.rows == uninterrupted.table.rows


def test_a_round_is_written_while_the_next_one_computes(uninterrupted):
  computing = threading.Event()

  class Computing(Process):
    def next(self, state, client_data):
      if self.num_calls == 1:  # This is round 2.
        computing.set()
      return super().next(state, client_data)

  def act(number):
    assert number != 1 or computing.wait(timeout=30)

  run = Run()
  run.train(Computing(), table=Table(act))
  assert run.table.rows == uninterrupted.table.rows
  assert run.states.saved == uninterrupted.states.saved


@pytest.mark.parametrize("round_num", [1, 5, 10])
def test_what_cannot_be_written_ends_the_run(uninterrupted, round_num):
  def act(number):
    if number == round_num:
      raise OSError("full")

  run, process = Run(), Process()
  with pytest.raises(OSError, match="full"):
    run.train(process, table=Table(act))
  # The loop computes at most one round beyond the failed one.
  assert process.num_calls <= round_num + 1
  assert max(run.states.saved, default=0) == round_num - 1
  run.train()
  assert run.states.saved[10] == uninterrupted.states.saved[10]


# Accuracies after rounds 1, 2, ...; round 0 has the last one, which is the
# largest but must not be chosen.
ACCURACIES = [0.2, 0.5, 0.5, 0.4, 0.6, 0.1, 0.6, 0.3, 0.9, 1.0]


class Accuracies(Process):
  """A process whose weights grow by 1 in each round."""

  def next(self, state, client_data):
    super().next(state, client_data)
    return Output(State(state.weights + 1), {"weights": state.weights + 1})


class Recalled(BestEvaluationTracker):
  """A tracker that knows the evaluations up to the last saved state."""

  saved = 0

  def on_start(self, run):
    for number, (*_, found) in sorted(run.rows.items()):
      if 0 < number <= self.saved:
        self.add(number, found["accuracy"])


def select(run, process=None, patience=None):
  """Trains with a tracker that knows the evaluations written so far."""
  followed = Recalled("mean", patience)
  followed.saved = max(run.states.saved, default=0)

  def evaluate(state):
    accuracy = {"mean": ACCURACIES[round(state.weights) - 2]}
    return RoundEvaluation({"accuracy": accuracy}, {})

  run.train(process or Accuracies(), evaluate, callbacks=[followed])
  return followed


@pytest.mark.parametrize(
  ("patience", "last", "best"),
  [(None, 10, [1, 2, 5, 9, 10]), (3, 8, [1, 2, 5]), (2, 4, [1, 2])],
)
def test_the_best_states_are_kept_until_patience_ends(patience, last, best):
  run = Run(rounds_per_evaluation=1, rounds_per_checkpoint=100)
  found = select(run, patience=patience)
  assert max(run.table.rows) == max(run.states.saved) == last
  assert list(run.table.best) == best
  assert run.table.best[best[-1]].weights == best[-1] + 1
  # A resumed run never starts before its best round, which it could not repeat.
  assert run.states.saved.keys() == {*best, last}
  assert (found.round_num, found.value) == (best[-1], ACCURACIES[best[-1] - 1])
  # A run that has stopped does not go on.
  again = Accuracies()
  assert vars(select(run, again, patience)) == {**vars(found), "saved": last}
  assert again.num_calls == 0


@pytest.mark.parametrize("call", range(1, 9))
def test_a_best_evaluation_is_remembered_after_a_stop(call):
  run = Run(rounds_per_evaluation=1, rounds_per_checkpoint=100)
  with pytest.raises(RuntimeError):
    select(run, Accuracies(call, RuntimeError()), patience=3)
  assert select(run, patience=3).round_num == 5
  assert list(run.table.best) == [1, 2, 5]
  assert max(run.table.rows) == 8


def test_of_errors_the_first_of_the_smallest_is_the_best():
  found = BestEvaluationTracker("worst_10", 2, score=RMSE)
  errors = [math.inf, 5.0, 3.0, math.nan, 3.0]
  improved = [
    found.add(n, {"worst_10": v, "mean": -v}) for n, v in enumerate(errors, 1)
  ]
  assert improved == [False, True, True, False, False]
  assert (found.round_num, found.value) == (3, 3.0)


def stationarity(round_num):
  """Returns a round's stationarity, which is small from round 6 on.

  Round 2 has no clients.
  """
  return {
    "num_clients": 0 if round_num == 2 else 3,
    "pareto_stationarity": 0.0 if round_num == 2 else 0.6 / round_num,
  }


class At(RoundCallback):
  """A callback whose hook `hook` returns a verdict in one round."""

  def __init__(self, hook, number, verdict):
    self._at, self._verdict = (hook, number), verdict

  def on_round(self, state):
    return self._verdict if self._at == ("on_round", state.round_num) else None

  def on_evaluation(self, state):
    found = ("on_evaluation", state.round_num)
    return self._verdict if self._at == found else None


@pytest.mark.parametrize(
  ("callback", "last", "evaluations"),
  [
    (StationarityStop(0.01), 10, [0, 4, 8, 10]),
    (StationarityStop(0.1), 6, [0, 4, 6]),
    (StationarityStop(0.09), 7, [0, 4, 7]),
    (StationarityStop(0.15), 4, [0, 4]),
    (At("on_round", 7, "stop"), 7, [0, 4, 7]),
    (At("on_evaluation", 8, "stop"), 8, [0, 4, 8]),
    (At("on_evaluation", 0, "stop"), 1, [0, 1]),
    (At("on_round", 7, "prune"), 7, [0, 4]),
    (At("on_evaluation", 4, "prune"), 4, [0, 4]),
  ],
)
def test_a_callback_ends_a_run_after_a_round(callback, last, evaluations):
  run = Run()
  process = Process(aggregator=stationarity)
  run.train(process, callbacks=[callback])
  assert process.num_calls == max(run.states.saved) == last
  assert list(run.table.rows) == list(range(last + 1))
  assert [n for n, row in run.table.rows.items() if row[-1]] == evaluations
  # A run that was planned for this number of rounds has the same result.
  other = Run(total_rounds=last)
  other.train(Process(aggregator=stationarity))
  assert run.states.saved[last][0] == other.states.saved[last][0]
  # A run that has stopped does not go on, and a pruned one does.
  again = Process(aggregator=stationarity)
  run.train(again)
  is_pruned = vars(callback).get("_verdict") == "prune"
  assert again.num_calls == (10 - last if is_pruned else 0)
