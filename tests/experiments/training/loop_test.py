"""Tests of the loop by itself: the process and the managers are made up."""

import copy
import itertools
import math
import signal
import threading
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.experiments.training import rounds_test
from tff_fair.experiments import RunSpec, interruption
from tff_fair.experiments.spec.scores import RMSE
from tff_fair.experiments.training import loop, rounds, sampling

NUM_CLIENTS = 7


class State(NamedTuple):
  weights: float


class Output(NamedTuple):
  state: State
  metrics: dict


class Process:
  """Its weights remember the cohorts and their order."""

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


class States(tff.program.ProgramStateManager):
  """Keeps states in memory, across loops."""

  def __init__(self):
    self.saved = {}

  async def get_versions(self):
    return sorted(self.saved) or None

  async def load(self, version, structure):
    assert isinstance(structure, State)
    return copy.deepcopy(self.saved[version])

  async def save(self, program_state, version):
    assert version not in self.saved
    self.saved[version] = copy.deepcopy(program_state)

  async def remove_all(self):
    self.saved.clear()


class Table(tff.program.ReleaseManager):
  def __init__(self, signal_at=None):
    self.rows = {}
    self._signal_at = signal_at

  async def release(self, value, key):
    if key == self._signal_at:
      signal.raise_signal(signal.SIGTERM)
    self.rows[key] = value


SCHEDULE = loop.Schedule(10, 4, 3)


def test_the_model_is_evaluated_before_clients_join():
  schedule = SCHEDULE._replace(before_joining=[1, 5])
  evaluated = [n for n in range(1, 11) if schedule.evaluates(n)]
  assert evaluated == [1, 4, 5, 8, 10]
  last = [schedule.last_evaluation(n) for n in range(11)]
  assert last == [
    max([0, *(e for e in evaluated if e <= n)]) for n in range(11)
  ]


def evaluated(state):
  weights = state.weights
  return loop.RoundEvaluation(
    {"twice": 2 * weights}, {"all": np.array(weights)}
  )


class Run:
  """What outlives an interruption."""

  def __init__(self, **settings):
    self.schedule = SCHEDULE._replace(**settings)
    self.states, self.best_states = States(), States()
    self.releases = loop.Releases(*(Table() for _ in range(7)))
    self.progress = []

  def train(self, process=None, evaluate=None, selection=None, **releases):
    loop.train(
      rounds.Rounds(
        process=process or Process(),
        sample=sampling.Sampler(RunSpec(seed=5), 3, np.ones(NUM_CLIENTS)),
        train_data=lambda client_ids: [k + 0.1 for k in client_ids],
        costs=lambda state, cohort: {"paid": state.weights + len(cohort)},
        **rounds_test.UNWATCHED,
      ),
      self.schedule,
      evaluate=evaluate or evaluated,
      state_manager=self.states,
      releases=self.releases._replace(**releases),
      report_progress=lambda *args: self.progress.append(args),
      selection=selection,
      best_manager=self.best_states,
    )

  def tables(self):
    return {
      name: getattr(self.releases, name).rows
      for name in ("metrics", "costs", "summary", "clients")
    }


@pytest.fixture(scope="module")
def uninterrupted():
  run = Run()
  run.train()
  return run


def test_every_round_is_released_in_order(uninterrupted):
  releases = uninterrupted.releases
  assert list(releases.metrics.rows) == list(range(1, 11))
  assert list(releases.timing.rows) == list(range(1, 11))
  assert [round_num for round_num, _ in uninterrupted.progress] == list(
    range(11)
  )


def test_evaluates_every_so_often_and_at_the_end(uninterrupted):
  tables = uninterrupted.tables()
  assert list(tables["summary"]) == list(tables["clients"]) == [0, 4, 8, 10]
  weights_after = {0: Process().initialize().weights} | {
    n: row["weights"] for n, row in tables["metrics"].items()
  }
  for round_num, summary in tables["summary"].items():
    weights = weights_after[round_num]
    assert summary == {"twice": 2 * weights}
    assert tables["clients"][round_num] == {"all": weights}
  with_evaluation = [n for n, found in uninterrupted.progress if found]
  assert with_evaluation == [0, 4, 8, 10]


def test_saves_every_so_often_and_measures_seconds(uninterrupted):
  assert list(uninterrupted.states.saved) == [3, 6, 9, 10]
  for round_num, state in uninterrupted.states.saved.items():
    metrics = uninterrupted.releases.metrics.rows[round_num]
    assert state.weights == metrics["weights"]
  rows = uninterrupted.releases.timing.rows
  assert all(row["round_seconds"] >= 0 for row in rows.values())
  assert [n for n, row in rows.items() if len(row) > 1] == [4, 8, 10]


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
  assert run.tables() == uninterrupted.tables()
  assert run.states.saved[10] == uninterrupted.states.saved[10]


def test_a_round_whose_evaluation_stops_is_done_again(uninterrupted):
  run = Run()

  def stop(state):
    if run.progress:
      raise interruption.Interrupted(signal.SIGINT)
    return evaluated(state)

  with pytest.raises(interruption.Interrupted):
    run.train(evaluate=stop)
  assert max(run.states.saved) == 3
  run.train()
  assert run.tables() == uninterrupted.tables()


@pytest.mark.parametrize(
  ("name", "round_num"),
  [
    *itertools.product(
      ["metrics", "timing", "costs", "cohorts"], [1, 4, 6, 10]
    ),
    *itertools.product(["summary", "clients"], [4, 10]),
  ],
)
def test_a_signal_lets_a_round_be_released_and_saves_it(
  uninterrupted, name, round_num
):
  run = Run()
  table = Table(signal_at=round_num)
  with interruption.raised(), pytest.raises(interruption.Interrupted):
    run.train(**{name: table})
  assert max(run.states.saved) == round_num
  assert max(table.rows) == max(run.releases.metrics.rows | table.rows)
  getattr(run.releases, name).rows.update(table.rows)
  run.train()
  assert run.tables() == uninterrupted.tables()


def test_a_round_is_written_while_the_next_one_computes(uninterrupted):
  computing = threading.Event()

  class Computing(Process):
    def next(self, state, client_data):
      if self.num_calls == 1:  # In round 2.
        computing.set()
      return super().next(state, client_data)

  class Slow(Table):
    async def release(self, value, key):
      if key == 1:
        assert computing.wait(timeout=30)
      await super().release(value, key)

  run, table = Run(), Slow()
  run.train(Computing(), costs=table)
  assert list(table.rows.items()) == list(
    uninterrupted.tables()["costs"].items()
  )
  assert run.states.saved == uninterrupted.states.saved


@pytest.mark.parametrize("name", ["metrics", "timing", "costs", "cohorts"])
@pytest.mark.parametrize("round_num", [1, 5, 10])
def test_what_cannot_be_written_ends_the_run(uninterrupted, name, round_num):
  class Full(Table):
    async def release(self, value, key):
      if key == round_num:
        raise OSError("full")
      await super().release(value, key)

  run, process = Run(), Process()
  with pytest.raises(OSError, match="full"):
    run.train(process, **{name: Full()})
  # The loop soon ends; it computes few rounds that no table keeps.
  assert process.num_calls <= round_num + 1
  assert max(run.states.saved, default=0) == round_num - 1
  again = Run()
  again.states.saved = run.states.saved
  again.train()
  assert again.states.saved[10] == uninterrupted.states.saved[10]


@pytest.mark.parametrize("name", ["summary", "clients"])
def test_a_run_that_stops_before_round_1_begins_anew(uninterrupted, name):
  run = Run()
  with interruption.raised(), pytest.raises(interruption.Interrupted):
    run.train(**{name: Table(signal_at=0)})
  assert not run.states.saved
  run.train()
  assert run.tables() == uninterrupted.tables()


def test_a_run_that_is_complete_does_nothing():
  run = Run()
  run.train()
  process = Process()
  run.train(process)
  assert process.num_calls == 0


# Accuracy at the evaluations in rounds 1, 2, ...; round 0 has the last, which
# is the largest, and is not to be chosen for it.
ACCURACIES = [0.2, 0.5, 0.5, 0.4, 0.6, 0.1, 0.6, 0.3, 0.9, 1.0]


class Accuracies(Process):
  """Its weights are the number of the round."""

  def next(self, state, client_data):
    super().next(state, client_data)
    return Output(State(state.weights + 1), {"weights": state.weights + 1})


def select(run, process=None, patience=None):
  """Trains with the evaluations released so far behind it."""
  followed = loop.Selection("mean", patience)
  saved = max(run.states.saved, default=0)
  for round_num, summary in sorted(run.releases.summary.rows.items()):
    if 0 < round_num <= saved:
      followed.add(round_num, summary["accuracy"])

  def evaluate(state):
    accuracy = {"mean": ACCURACIES[round(state.weights) - 2]}
    return loop.RoundEvaluation({"accuracy": accuracy}, {})

  run.train(process or Accuracies(), evaluate, followed)
  return followed


@pytest.mark.parametrize(
  ("patience", "last", "best"),
  [(None, 10, [1, 2, 5, 9, 10]), (3, 8, [1, 2, 5]), (2, 4, [1, 2])],
)
def test_the_best_states_are_kept_until_patience_ends(patience, last, best):
  run = Run(rounds_per_evaluation=1)
  found = select(run, patience=patience)
  assert max(run.releases.metrics.rows) == max(run.states.saved) == last
  assert list(run.best_states.saved) == best
  assert run.best_states.saved[best[-1]].weights == best[-1] + 1
  assert (found.round_num, found.value) == (best[-1], ACCURACIES[best[-1] - 1])
  # A run that has stopped does not go on.
  again = Accuracies()
  assert select(run, again, patience) == found
  assert again.num_calls == 0


@pytest.mark.parametrize("call", range(1, 9))
def test_a_selection_goes_on_after_a_stop(call):
  run = Run(rounds_per_evaluation=1, rounds_per_checkpoint=100)
  with pytest.raises(RuntimeError):
    select(run, Accuracies(call, RuntimeError()), patience=3)
  assert select(run, patience=3).round_num == 5
  assert list(run.best_states.saved) == [1, 2, 5]
  assert max(run.releases.metrics.rows) == 8


def test_the_state_is_saved_with_the_best():
  # So that no continuation begins before the best, which it could not repeat.
  run = Run(rounds_per_evaluation=1, rounds_per_checkpoint=100)
  select(run)
  assert list(run.states.saved) == list(run.best_states.saved)


def follow(values, patience=None, criterion="mean"):
  found = loop.Selection(criterion, patience)
  accuracies = [{"mean": v, "worst_10": 1 - v} for v in values]
  return found, [
    found.add(10 * n, accuracy) for n, accuracy in enumerate(accuracies, 1)
  ]


@pytest.mark.parametrize(
  ("criterion", "round_num", "value", "improvements"),
  [
    ("mean", 30, 0.75, [True, False, True, False, False]),
    ("worst_10", 20, 0.75, [True, True, False, False, False]),
  ],
)
def test_the_first_of_the_best_is_found(
  criterion, round_num, value, improvements
):
  found, improved = follow([0.5, 0.25, 0.75, 0.75, 0.5], criterion=criterion)
  assert improved == improvements
  assert (found.round_num, found.value) == (round_num, value)


def test_of_errors_the_smallest_is_the_best():
  found = loop.Selection("mean", 2, score=RMSE)
  errors = [math.inf, 5.0, 3.0, math.nan, 3.0]
  improved = [found.add(n, {"mean": v}) for n, v in enumerate(errors, 1)]
  assert improved == [False, True, True, False, False]
  assert (found.round_num, found.value) == (3, 3.0)
  assert found.is_exhausted


def test_an_accuracy_of_zero_is_one():
  found, improved = follow([0.0, 0.0])
  assert improved == [True, False]
  assert found.round_num == 10


@pytest.mark.parametrize(
  ("values", "patience", "is_exhausted"),
  [
    ([], 1, False),
    ([0.5], 1, False),
    ([0.5, 0.5], 1, True),
    ([0.5, 0.4, 0.5], 2, True),
    ([0.5, 0.4, 0.6, 0.6], 2, False),
    ([0.5] * 100, None, False),
  ],
)
def test_patience_ends_without_improvement(values, patience, is_exhausted):
  assert follow(values, patience)[0].is_exhausted == is_exhausted


def stationarity(round_num):
  """Without clients in round 2, and small from round 6 on."""
  return {
    "num_clients": 0 if round_num == 2 else 3,
    "pareto_stationarity": 0.0 if round_num == 2 else 0.6 / round_num,
  }


@pytest.mark.parametrize(
  ("bound", "last"), [(None, 10), (0.01, 10), (0.1, 6), (0.09, 7), (0.15, 4)]
)
def test_the_first_stationary_round_is_the_last_one(bound, last):
  run = Run(stop_at_stationarity=bound)
  process = Process(aggregator=stationarity)
  run.train(process)
  assert process.num_calls == last
  assert list(run.releases.metrics.rows) == list(range(1, last + 1))
  # It is evaluated and saved, as the last round of a run is.
  assert list(run.releases.summary.rows) == sorted(
    {0, *(n for n in (4, 8) if n < last), last}
  )
  assert max(run.states.saved) == last
  # A run of so many rounds has the same states.
  other = Run(total_rounds=last)
  other.train(Process(aggregator=stationarity))
  assert run.states.saved == other.states.saved
