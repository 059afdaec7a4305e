"""A round of a run: who takes part, what comes of it, and what is recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from tff_fair.experiments.training import exclusion, sampling

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

# Its parts depend on the method.
State: TypeAlias = "tff.learning.templates.LearningAlgorithmState"

# Where a process reports the coefficients of its clients, among its metrics.
_AGGREGATOR, _IDS = "aggregator", "client_ids"
_COEFFICIENTS, _LOSSES = "coefficients", "client_losses"


class Watch(Protocol):
  """Returns what surrounds work of clients that may take long."""

  def __call__(
    self, name: str, num_clients: int, passes: int = 1
  ) -> contextlib.AbstractContextManager[None]:
    """See `tff_fair.experiments.progress.Follower.watch`."""


class Process(Protocol):
  """What is needed of a `tff.learning.templates.LearningProcess`."""

  def initialize(self) -> State:
    """Returns the state before the first round."""

  def next(
    self, state: State, client_data: list[tf.data.Dataset]
  ) -> tff.learning.templates.LearningProcessOutput:
    """Runs a round; returns its `state` and `metrics`."""

  def set_model_weights(
    self, state: State, weights: tff.learning.models.ModelWeights
  ) -> State:
    """Returns the state with another model."""


class Round(NamedTuple):
  """What came of a round.

  Attributes:
    state: The state of the process after it.
    metrics: What is reported of it as a whole.
    seconds: How long it took.
    costs: What it cost the clients, by name.
    clients: Columns with one entry for each client that reported back, in
      ascending order of `client_id`; `coefficient`, `loss_before`,
      `loss_after` and `loss` are `None` where they are not known. `loss` is
      what the client reported to the method. `excluded` says why a client did
      not count, `None` for those who did.
  """

  state: State
  metrics: Mapping[str, Any]
  seconds: float
  costs: Mapping[str, int]
  clients: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rounds:
  """Runs rounds, each known by its number and the state before it alone.

  Attributes:
    process: The learning process.
    sample: Returns the cohort of a round by its number.
    train_data: Returns the data of clients by id, as the process takes them.
    costs: Returns what a round costs its clients, from the state before it.
    prepare: Begins to load the data of a round, by its number. It is asked for
      the round after the one that computes.
    watch: Surrounds the clients' work.
    tell: Takes a few words about a round in which most did not count.
    losses: Returns the losses of the global model of a state over the training
      data of clients. If given, it is asked before and after each round, and
      the share of clients whose loss did not rise is reported.
    num_examples: int[K], training examples of each client, if known.
    initial_weights: The model to begin with; by default the process's own.
  """

  process: Process
  sample: Callable[[int], sampling.Cohort]
  train_data: Callable[[Sequence[int]], list[tf.data.Dataset]]
  costs: Callable[[State, sampling.Cohort], Mapping[str, int]]
  prepare: Callable[[int], None]
  watch: Watch
  tell: Callable[[str], None]
  losses: Callable[[State, Sequence[int]], np.ndarray] | None = None
  num_examples: np.ndarray | None = None
  initial_weights: tff.learning.models.ModelWeights | None = None

  def initial_state(self) -> State:
    """Returns the state before the first round."""
    state = self.process.initialize()
    if self.initial_weights is None:
      return state
    return self.process.set_model_weights(state, self.initial_weights)

  def run(self, state: State, round_num: int) -> Round:
    """Runs a round.

    Args:
      state: The state before it.
      round_num: Its number, from 1.
    """
    cohort = self.sample(round_num)
    client_ids = cohort.reporting
    name, number = f"round {round_num}", len(client_ids)
    start = time.perf_counter()
    train_data = self.train_data(client_ids)
    self.prepare(round_num + 1)
    with self.watch(name, number):
      output = self.process.next(state, train_data)
    seconds = time.perf_counter() - start
    metrics, of_clients = _without_clients(output.metrics)
    excluded = exclusion.reasons(
      client_ids, of_clients.get(_COEFFICIENTS), self.num_examples
    )
    told = exclusion.describe_most(
      excluded, name
    ) or exclusion.describe_most_of_sums(metrics.get(_AGGREGATOR, {}), name)
    if told is not None:
      self.tell(told)
    before = after = np.full(number, None)
    if self.losses is not None:
      with self.watch(f"losses before {name}", number):
        before = self.losses(state, client_ids)
      with self.watch(f"losses after {name}", number):
        after = self.losses(output.state, client_ids)
      # A loss that is not a number has not been kept from rising.
      metrics = {**metrics, "improved_share": float(np.mean(after <= before))}
    return Round(
      output.state,
      metrics,
      seconds,
      self.costs(state, cohort),
      {
        "client_id": np.array(client_ids),
        "coefficient": _column(of_clients, _COEFFICIENTS, client_ids),
        "loss_before": before,
        "loss_after": after,
        "loss": _column(of_clients, _LOSSES, client_ids),
        "excluded": excluded,
      },
    )


def _without_clients(
  metrics: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Mapping[str, Mapping[int, float]]]:
  """Returns the metrics without what is of single clients, and that by id."""
  aggregator = metrics.get(_AGGREGATOR, {})
  if _IDS not in aggregator:
    return metrics, {}
  ids = np.asarray(aggregator[_IDS]).tolist()
  of_clients = {
    name: dict(zip(ids, np.asarray(aggregator[name]).tolist(), strict=True))
    for name in (_COEFFICIENTS, _LOSSES)
    if name in aggregator
  }
  of_cohort = {
    name: value
    for name, value in aggregator.items()
    if name not in (_IDS, *of_clients)
  }
  return {**metrics, _AGGREGATOR: of_cohort}, of_clients


def _column(
  of_clients: Mapping[str, Mapping[int, float]],
  name: str,
  client_ids: Sequence[int],
) -> np.ndarray:
  """Returns a value of each client; `None` for those who did not count."""
  values = of_clients.get(name, {})
  return np.array([values.get(k) for k in client_ids])
