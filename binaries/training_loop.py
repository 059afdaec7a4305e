"""The rounds of a training run: resumable, evaluated, repeatable.

Everything it works with is given: the process, the data and the managers that
save and release. Round t = 1, 2, ... draws its cohort from (seed, t) alone, and
a round counts once all that belongs to it is released; so a run that stops
anywhere and goes on from its last saved round ends like one that never stopped.
"""

from __future__ import annotations

import dataclasses
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from binaries import interruption

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

# Keeps the draws of cohorts apart from all else that the seed decides.
_COHORTS = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """How long to train, and when to evaluate and save.

  Attributes:
    total_rounds: Number of rounds.
    clients_per_round: Size of the cohort.
    rounds_per_evaluation: Every so many rounds, and after the last, all clients
      are evaluated.
    rounds_per_checkpoint: Every so many rounds, after the last, and when the
      loop ends early, the state is saved.
    seed: Seed of the cohorts.
  """

  total_rounds: int
  clients_per_round: int
  rounds_per_evaluation: int
  rounds_per_checkpoint: int
  seed: int


class Evaluation(NamedTuple):
  """The model on the test data of all clients.

  Attributes:
    summary: Statistics over the clients, by name.
    clients: Columns with one entry per client, in ascending order of client id.
  """

  summary: Mapping[str, Any]
  clients: Mapping[str, np.ndarray]


class Process(Protocol):
  """What is needed of a `tff.learning.templates.LearningProcess`."""

  def initialize(self) -> Any:
    """Returns the state before the first round."""

  def next(self, state: Any, client_data: Any) -> Any:
    """Runs a round; returns its `state` and `metrics`."""


class Releases(NamedTuple):
  """Where results go; each release has the number of its round as key.

  Attributes:
    metrics: Takes what the process reports of a round.
    timing: Takes the seconds that a round took.
    summary: Takes `Evaluation.summary`.
    clients: Takes `Evaluation.clients`.
  """

  metrics: tff.program.ReleaseManager
  timing: tff.program.ReleaseManager
  summary: tff.program.ReleaseManager
  clients: tff.program.ReleaseManager


async def train(
  process: Process,
  *,
  settings: Settings,
  num_clients: int,
  train_data: Callable[[Sequence[int]], list[tf.data.Dataset]],
  evaluate: Callable[[Any], Evaluation],
  state_manager: tff.program.ProgramStateManager,
  releases: Releases,
  report_progress: Callable[[int, Evaluation | None], None],
) -> None:
  """Trains up to the last round, from the last saved one.

  Args:
    process: The learning process.
    settings: How long to train, and when to evaluate and save.
    num_clients: Size of the population; client ids are 0 ... num_clients - 1.
    train_data: Returns the data of clients by id, as the process takes them.
    evaluate: Evaluates a state of the process on all clients.
    state_manager: Saves the state of the process under the number of rounds.
    releases: Where results go.
    report_progress: Called after each round with its number and, if there was
      one, its evaluation.

  Raises:
    Interrupted: If a signal came. As with any other exception, the last
      complete round is saved first.
  """
  state = process.initialize()
  saved_state, completed = await state_manager.load_latest(state)
  if saved_state is not None:
    state = saved_state
  saved = completed
  try:
    for round_num in range(completed + 1, settings.total_rounds + 1):
      is_last = round_num == settings.total_rounds
      cohort = sample_cohort(settings, num_clients, round_num)
      start = time.perf_counter()
      output = process.next(state, train_data(cohort))
      timing = {"round_seconds": time.perf_counter() - start}
      evaluation = None
      if is_last or round_num % settings.rounds_per_evaluation == 0:
        start = time.perf_counter()
        evaluation = evaluate(output.state)
        timing["evaluation_seconds"] = time.perf_counter() - start

      with interruption.deferred():
        await releases.metrics.release(output.metrics, round_num)
        await releases.timing.release(timing, round_num)
        if evaluation is not None:
          await releases.summary.release(evaluation.summary, round_num)
          await releases.clients.release(evaluation.clients, round_num)
        state, completed = output.state, round_num
        if is_last or round_num % settings.rounds_per_checkpoint == 0:
          await state_manager.save(state, completed)
          saved = completed
      report_progress(completed, evaluation)
  finally:
    if completed > saved:
      with interruption.deferred():
        await state_manager.save(state, completed)


def sample_cohort(
  settings: Settings, num_clients: int, round_num: int
) -> list[int]:
  """Draws the clients of a round, without replacement, in ascending order.

  Depends on the seed, the round and the two sizes alone.
  """
  sequence = np.random.SeedSequence(
    settings.seed, spawn_key=(_COHORTS, round_num)
  )
  generator = np.random.Generator(np.random.PCG64(sequence))
  drawn = generator.choice(
    num_clients, settings.clients_per_round, replace=False
  )
  return sorted(drawn.tolist())
