"""Runs single rounds of a run, and collects the values to record."""

from __future__ import annotations

import collections
import dataclasses
import functools
import time
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tff_fair.experiments.training import sampling
from tff_fair.experiments.training.round_progress import track_work
from tff_fair.experiments.training.round_state import ClientUpdates, RoundState

if typing.TYPE_CHECKING:
  import pandas as pd
  import tensorflow_federated as tff

  from tff_fair.experiments.training import client_data


# The state of a process, whose parts depend on the method.
State: TypeAlias = "tff.learning.templates.LearningAlgorithmState"

# Metrics in which a process reports values of single clients.
_AGGREGATOR, _IDS = "aggregator", "client_ids"
_COEFFICIENTS, _LOSSES = "coefficients", "client_losses"
_BLOCKING = "blocking_weights"
_TAPE = "tape_"  # As in `tff_fair.summing.tape`, which imports TensorFlow.


# A TFF process, or an object with its interface, such as `CohortRowsProcess`.
Process: TypeAlias = "tff.learning.templates.LearningProcess"


@dataclasses.dataclass(kw_only=True)
class RoundRunner:
  """Runs rounds; a round depends only on its number and the state before it."""

  process: Process
  sample: Callable[[int], sampling.DrawnCohort]  # The cohort of a round.
  train_data: client_data.ClientDatasets
  last_round: int  # Rounds before it also load the next round's data.
  costs: Callable[[State, sampling.DrawnCohort], Mapping[str, int]]
  num_examples: np.ndarray  # int[clients], each client's training examples.
  losses: Callable[[State, Sequence[int]], np.ndarray] | None = None
  prepare: Callable[[State, Sequence[int]], State] | None = None
  before_round: Callable[[State], None] | None = None  # Before the cohort draw.
  after_round: Callable[[State, State, int], State] | None = None
  # Sets the seed, the client learning rate and the initial weights.
  prepare_initial_state: Callable[[State], State] = lambda state: state
  updates: Callable[[State, list[Any]], ClientUpdates] | None = None
  can_prefetch: bool = True  # Whether the next cohort is known in advance.
  counts_negative_as_zero: bool = False  # Whether losses below 0 count as 0.
  _has_noted_negative: bool = False

  def initial_state(self) -> State:
    """Returns the state before the first round."""
    return self.prepare_initial_state(self.process.initialize())

  def make_round_state(
    self, process_state: State, round_num: int, **results: Any
  ) -> RoundState:
    """Returns a state of the process in the form that callbacks receive."""
    return RoundState(
      round_num=round_num,
      process_state=process_state,
      get_model_weights=self.process.get_model_weights,
      **results,
    )

  def run(self, state: State, round_num: int) -> RoundState:
    """Runs a round; returns the state after it, with all values to record."""
    if self.before_round is not None:
      self.before_round(state)
    cohort = self.sample(round_num)
    start = time.perf_counter()
    train_data = self.train_data(cohort.reporting)
    unique, times = np.unique(cohort.reporting, return_counts=True)
    client_ids: list[int] = unique.tolist()
    name, number = f"round {round_num}", len(client_ids)
    if self.can_prefetch and round_num < self.last_round:
      self.train_data.prepare(self.sample(round_num + 1).reporting)
    if self.prepare is not None:
      state = self.prepare(state, client_ids)
    with track_work(name, number):
      output = self.process.next(state, train_data)
    new_state = output.state
    if self.after_round is not None:
      new_state = self.after_round(state, new_state, round_num)
    seconds = time.perf_counter() - start
    metrics, of_clients, tape = _split_metrics(output.metrics)
    excluded = reasons_of_exclusion(
      client_ids, of_clients.get(_COEFFICIENTS), self.num_examples
    )
    notes = [
      describe_exclusion(excluded, name)
      or describe_exclusion_of_sums(metrics.get(_AGGREGATOR, {}), name)
    ]
    if self.counts_negative_as_zero and not self._has_noted_negative:
      losses = of_clients.get(_LOSSES, {})
      if (told := describe_negative_losses(losses, name)) is not None:
        self._has_noted_negative = True
        notes.append(told)
    before = after = np.full(number, None)
    if self.losses is not None:
      with track_work(f"losses before {name}", number):
        before = self.losses(state, client_ids)
      with track_work(f"losses after {name}", number):
        after = self.losses(new_state, client_ids)
      # A NaN loss counts as a rise.
      metrics = {**metrics, "improved_share": float(np.mean(after <= before))}
    return self.make_round_state(
      new_state,
      round_num,
      metrics=metrics,
      timing={"round_seconds": seconds},
      costs=self.costs(state, cohort.without_repeats),
      clients={
        "client_id": np.array(client_ids),
        "coefficient": _scale_by_count(
          _column(of_clients, _COEFFICIENTS, client_ids), times
        ),
        "loss_before": before,
        "loss_after": after,
        "loss": _column(of_clients, _LOSSES, client_ids),
        "blocking_weight": _column(of_clients, _BLOCKING, client_ids),
        "excluded": excluded,
      },
      get_updates=self.updates
      and functools.partial(self.updates, state, train_data),
      tape=tape,
      notes=[note for note in notes if note is not None],
    )


def stationarity(state: RoundState) -> float | None:
  """Returns a round's Pareto stationarity; None if it was not measured."""
  found = state.metrics.get(_AGGREGATOR, {})
  value = found.get("pareto_stationarity")
  return float(value) if value is not None and found["num_clients"] else None


def tape_entries(metrics: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
  """Returns those entries of a round's metrics that belong on the tape."""
  return _split_metrics(metrics)[2]


def _split_metrics(
  metrics: Mapping[str, Any],
) -> tuple[
  Mapping[str, Any], Mapping[str, Mapping[int, float]], Mapping[str, np.ndarray]
]:
  """Splits metrics into those of the cohort, of clients, and for the tape."""
  aggregator = metrics.get(_AGGREGATOR, {})
  taped = {
    name.removeprefix(_TAPE): np.asarray(value)
    for name, value in aggregator.items()
    if name.startswith(_TAPE)
  }
  ids = np.asarray(aggregator.get(_IDS, ())).tolist()
  of_clients = {
    name: dict(zip(ids, np.asarray(aggregator[name]).tolist(), strict=True))
    for name in (_COEFFICIENTS, _LOSSES, _BLOCKING)
    if name in aggregator and _IDS in aggregator
  }
  of_cohort = {
    name: value
    for name, value in aggregator.items()
    if not name.startswith(_TAPE) and name not in (_IDS, *of_clients)
  }
  return {**metrics, _AGGREGATOR: of_cohort}, of_clients, taped


def _column(
  of_clients: Mapping[str, Mapping[int, float]],
  name: str,
  client_ids: Sequence[int],
) -> np.ndarray:
  """Returns the value `name` of each client; `None` for excluded clients."""
  values = of_clients.get(name, {})
  return np.array([values.get(k) for k in client_ids])


def _scale_by_count(values: np.ndarray, times: np.ndarray) -> np.ndarray:
  """Multiplies each client's value by how often the cohort contains it."""
  return np.array(
    [v if v is None else v * n for v, n in zip(values, times, strict=True)]
  )


# Reasons why aggregation excludes clients. They are inferred, as aggregation
# reports only which clients it includes.
NO_EXAMPLES = "no examples"
NOT_FINITE = "not finite"
OUT_OF_BOUNDS = "num_clients_out_of_bounds"  # A metric of secure sums.
_ADVICE = {
  NO_EXAMPLES: "the clients have no training examples; check the data",
  NOT_FINITE: "updates or losses were not finite; try a smaller "
  "client_learning_rate, and check that features and labels are scaled",
}


def reasons_of_exclusion(
  client_ids: Sequence[int],
  counted: Collection[int] | None,
  num_examples: np.ndarray,
) -> np.ndarray:
  """Returns why each client was excluded; `None` for those in `counted`."""
  if counted is None:
    return np.full(len(client_ids), None)

  def reason(client_id: int) -> str | None:
    if client_id in counted:
      return None
    return NO_EXAMPLES if num_examples[client_id] == 0 else NOT_FINITE

  return np.array([reason(k) for k in client_ids], dtype=object)


def describe_exclusion(excluded: np.ndarray, name: str) -> str | None:
  """Returns a warning if more than half of a round's clients were excluded."""
  counts: collections.Counter[str] = collections.Counter(filter(None, excluded))
  if 2 * counts.total() <= len(excluded):
    return None
  why = ", ".join(f"{n} {reason}" for reason, n in counts.most_common())
  return (
    f"{counts.total()} of {len(excluded)} clients did not count in {name} "
    f"({why})"
  )


def describe_negative_losses(
  losses: Mapping[int, float], name: str
) -> str | None:
  """Returns a warning if clients have losses below 0, which count as 0."""
  number = sum(loss < 0 for loss in losses.values())
  if not number:
    return None
  return (
    f"{number} of {len(losses)} clients have a loss below 0 in {name}, which "
    "counts as 0 in this method: these clients may lose their weight, and "
    "training may stall. Add a constant to the loss, or take another method."
  )


def describe_exclusion_of_sums(
  metrics: Mapping[str, Any], name: str
) -> str | None:
  """Returns a warning if secure sums excluded more than half of the clients."""
  if OUT_OF_BOUNDS not in metrics:
    return None
  counted, excluded, beyond = (
    int(metrics[key])
    for key in ("num_clients", "num_clients_excluded", OUT_OF_BOUNDS)
  )
  others = excluded + beyond
  if others <= counted:
    return None
  return (
    f"{others} of {counted + others} clients did not count in {name} ({beyond} "
    f"out of bounds: try a larger secure_bound; {excluded} for other reasons)"
  )


def advise_on_idle_rounds(
  cohorts: pd.DataFrame, num_idle_rounds: int, num_rounds: int
) -> str:
  """Returns the warning for a run whose last rounds excluded all clients."""
  last = num_rounds - num_idle_rounds
  text = (
    f"no client counted in the last {num_idle_rounds:,} of {num_rounds:,} "
    f"rounds, so the model is that of round {last:,}"
    if last
    else "no client counted in any round, so the model is the initial one"
  )
  excluded = cohorts["excluded"][cohorts["round"] > last]
  if excluded.isna().all():
    return f"{text}; if sums are secure, try a larger secure_bound."
  found = excluded.value_counts().index
  return "; ".join([text, *(_ADVICE[reason] for reason in found)]) + "."
