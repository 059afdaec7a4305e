"""Trains many short runs without folders, for fair-bench and `choice_runs`.

The runs share their compiled computations.
"""

import pickle
from collections.abc import Callable
from typing import Any

import tasks
from tff_fair import summing
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  build,
  build_rounds,
  client_data,
  client_evaluation,
  execution,
  fairfed_deviations,
  loop,
)
from tff_fair.experiments.training.callbacks import Callbacks, RoundCallback
from tff_fair.experiments.training.early_stopping import StationarityStop
from tff_fair.experiments.training.round_state import (
  RoundEvaluation,
  RoundState,
)
from tff_fair.runtime import compilation_cache


class ProgramCache(compilation_cache.CompilationCache):
  """Keeps compiled computations in memory, even those with users' code."""

  def __init__(self) -> None:
    super().__init__(None)
    self._known: dict[bytes, Any] = {}

  def computations(
    self, key: object, build: Callable[[], compilation_cache.Computations]
  ) -> compilation_cache.Computations:
    """See the base class."""
    found: compilation_cache.Computations = self._get_or_compute(key, build)
    return found

  def text(self, key: object, find: Callable[[], str]) -> str:
    """See the base class."""
    return str(self._get_or_compute(key, find))

  def _get_or_compute(self, key: object, find: Callable[[], Any]) -> Any:
    try:
      name = pickle.dumps(key)
    except (AttributeError, TypeError, pickle.PicklingError):
      return find()  # The key cannot be pickled; it may hold a closure.
    if name not in self._known:
      self._known[name] = find()
    return self._known[name]


class _LastEvaluation(RoundCallback):
  evaluation: RoundEvaluation
  last_state: RoundState

  def on_evaluation(self, state: RoundState) -> None:
    assert state.evaluation is not None
    self.evaluation, self.last_state = state.evaluation, state


def train_and_evaluate(
  spec: RunSpec,
  task: tasks.Task,
  cache: compilation_cache.CompilationCache,
  *,
  counts_groups: bool = False,
) -> RoundEvaluation:
  """Trains a run, and returns its last evaluation.

  With `counts_groups`, the evaluation has columns of clients' counts by group.
  """
  parts = build.run_parts(spec, task, cache)
  execution.select_engine(None, parts.aggregation == summing.SECURE)
  sample = build_rounds.sampler(spec, parts)
  last = _LastEvaluation()
  followers: list[RoundCallback] = [last]
  if spec.sampling == "power_of_choice":
    followers.append(sample.last_losses)
  if spec.stop_at_stationarity is not None:
    followers.append(StationarityStop(spec.stop_at_stationarity))
  with (
    client_data.open_datasets(task) as data,
    Callbacks(followers, say=lambda _: None) as callbacks,
  ):
    loop.train(
      build_rounds.rounds(spec, parts, sample, data.train, None, False),
      parts.schedule,
      evaluate=client_evaluation.build_evaluation(
        parts, data.test, data.validation
      ),
      states=loop.StateStore(),
      callbacks=callbacks,
    )
  if not counts_groups:
    return last.evaluation
  return _with_group_counts(parts, last)


def _with_group_counts(
  parts: build.RunParts, last: _LastEvaluation
) -> RoundEvaluation:
  found = last.evaluation
  if f"global_{found.score.name}" in found.clients:
    raise FieldError(
      "criterion",
      "needs groups under one global model, but the run evaluates personal "
      "ones.",
    )
  ids = found.clients["client_id"].tolist()
  columns = dict(found.clients)
  for prefix, split in (
    ("", parts.task.test),
    (tables.VALIDATION, parts.task.validation),
  ):
    if split is not None:
      counter = fairfed_deviations.GroupCounter(parts, split)
      counts = counter.count(last.last_state.model_weights, ids)
      columns |= {
        f"{prefix}{name}": values
        for name, values in group_measures.columns(counts).items()
      }
  return found._replace(clients=columns)
