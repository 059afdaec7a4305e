"""Runs without a folder: many short runs share what a program has built."""

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
  client_data,
  client_evaluation,
  fairfed_deviations,
  loop,
  resume,
  running,
  sampling,
)
from tff_fair.experiments.training.callbacks import Callbacks, RoundCallback
from tff_fair.experiments.training.round_state import (
  RoundEvaluation,
  RoundState,
  SavedCallbacks,
)
from tff_fair.runtime import compilation_cache


class ProgramCache(compilation_cache.CompilationCache):
  """Keeps computations while the program runs, users' code included."""

  def __init__(self) -> None:
    super().__init__(None)
    self._known: dict[bytes, Any] = {}

  def compiled(
    self, key: object, build: Callable[[], compilation_cache.Computations]
  ) -> compilation_cache.Computations:
    """See the base class."""
    found: compilation_cache.Computations = self._once(key, build)
    return found

  def text(self, key: object, find: Callable[[], str]) -> str:
    """See the base class."""
    return str(self._once(key, find))

  def _once(self, key: object, find: Callable[[], Any]) -> Any:
    try:
      name = pickle.dumps(key)
    except (AttributeError, TypeError, pickle.PicklingError):
      return find()  # For example, a user's model that a closure builds.
    if name not in self._known:
      self._known[name] = find()
    return self._known[name]


class _LastEvaluation(RoundCallback):
  found: RoundEvaluation
  last: RoundState

  def on_evaluation(self, state: RoundState) -> None:
    assert state.evaluation is not None
    self.found, self.last = state.evaluation, state


class _Unsaved:
  """The states of a run that does not save them."""

  def load_latest(self, initial: Any) -> tuple[Any, int, SavedCallbacks | None]:
    return initial, 0, None

  def save(self, state: RoundState) -> None:
    """Saves nothing."""


def evaluate_trained(
  spec: RunSpec,
  task: tasks.Task,
  cache: ProgramCache,
  *,
  counts_groups: bool = False,
) -> RoundEvaluation:
  """Trains a run, and returns the evaluation after its last round."""
  parts = build.run_parts(spec, task, cache)
  running.connect(None, parts.aggregation == summing.SECURE)
  sample = sampling.Sampler(
    spec,
    parts.clients_per_round,
    task.train.num_examples,
    None,
    parts.first_rounds,
  )
  last = _LastEvaluation()
  with (
    client_data.opened(task) as data,
    Callbacks([last], (), lambda _: None) as callbacks,
  ):
    loop.train(
      resume.rounds_of(spec, parts, sample, data.train, None, False),
      parts.schedule,
      evaluate=client_evaluation.build_evaluation(
        parts, data.test, data.validation
      ),
      states=_Unsaved(),
      callbacks=callbacks,
    )
  if not counts_groups:
    return last.found
  return _with_groups(parts, last)


def _with_groups(
  parts: build.RunParts, last: _LastEvaluation
) -> RoundEvaluation:
  found = last.found
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
      counts = counter.count(last.last.model_weights, ids)
      columns |= {
        f"{prefix}{name}": values
        for name, values in group_measures.columns(counts).items()
      }
  return found._replace(clients=columns)
