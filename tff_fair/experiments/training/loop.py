"""The rounds of a training run: resumable, evaluated, repeatable.

Everything it works with is given: the rounds, the evaluation and the managers
that save and release. A round is known by its number and the state before it,
and counts once all that belongs to it is released; so a run that stops anywhere
and goes on from its last saved round ends like one that never stopped.
"""

from __future__ import annotations

import dataclasses
import time
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tff_fair.experiments import interruption
from tff_fair.experiments.training import rounds
from tff_fair.experiments.training.selection import Selection

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """How long to train, and when to evaluate and save.

  Attributes:
    total_rounds: Number of rounds.
    rounds_per_evaluation: Every so many rounds, and after the last, the model
      is evaluated.
    rounds_per_checkpoint: Every so many rounds, after the last, and when the
      loop ends early, the state is saved.
  """

  total_rounds: int
  rounds_per_evaluation: int
  rounds_per_checkpoint: int


class Evaluation(NamedTuple):
  """The model on the test data of clients.

  Attributes:
    summary: Statistics over the clients, by name.
    clients: Columns with one entry per client, in ascending order of client id.
  """

  summary: Mapping[str, Any]
  clients: Mapping[str, np.ndarray]


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


async def train(
  training: rounds.Rounds,
  *,
  settings: Settings,
  evaluate: Callable[[Any], Evaluation],
  state_manager: tff.program.ProgramStateManager,
  releases: Releases,
  report_progress: Callable[[int, Evaluation | None], None],
  selection: Selection | None = None,
  best_manager: tff.program.ProgramStateManager | None = None,
) -> None:
  """Trains up to the last round, from the last saved one.

  Args:
    training: The rounds.
    settings: How long to train, and when to evaluate and save.
    evaluate: Evaluates a state of the process.
    state_manager: Saves the state of the process under the number of rounds.
    releases: Where results go.
    report_progress: Called after each round with its number and, if there was
      one, its evaluation.
    selection: Knows the evaluations up to the last saved round, and says when
      to stop. `None` goes on to the last round.
    best_manager: Saves the states at the best evaluations so far.

  Raises:
    Interrupted: If a signal came. As with any other exception, the last
      complete round is saved first.
  """
  state = training.initial_state()
  saved_state, completed = await state_manager.load_latest(state)
  if saved_state is not None:
    state = saved_state
  saved = completed
  try:
    for round_num in range(completed + 1, settings.total_rounds + 1):
      if selection is not None and selection.is_exhausted:
        break
      is_last = round_num == settings.total_rounds
      result = training.run(state, round_num)
      timing = {"round_seconds": result.seconds}
      evaluation = None
      if is_last or round_num % settings.rounds_per_evaluation == 0:
        start = time.perf_counter()
        evaluation = evaluate(result.state)
        timing["evaluation_seconds"] = time.perf_counter() - start

      with interruption.deferred():
        await releases.metrics.release(result.metrics, round_num)
        await releases.timing.release(timing, round_num)
        await releases.costs.release(result.costs, round_num)
        await releases.cohorts.release(result.clients, round_num)
        if evaluation is not None:
          await releases.summary.release(evaluation.summary, round_num)
          await releases.clients.release(evaluation.clients, round_num)
        state, completed = result.state, round_num
        is_due = is_last or round_num % settings.rounds_per_checkpoint == 0
        if (
          evaluation is not None
          and selection is not None
          and selection.add(round_num, evaluation.summary["accuracy"])
          and best_manager is not None
        ):
          await best_manager.save(state, completed)
          # The run never goes on from before its best state.
          is_due = True
        if is_due:
          await state_manager.save(state, completed)
          saved = completed
      report_progress(completed, evaluation)
  finally:
    if completed > saved:
      with interruption.deferred():
        await state_manager.save(state, completed)
