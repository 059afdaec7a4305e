"""Builds the parts of a run before its first round, such as its TFF process."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.models import initial_weights
from tasks.task import KerasModelFn
from tff_fair import keras_state
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery, model_files, trained_model
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  costs,
  learning_process,
  loop,
  plan,
  rounds,
  sampling,
)
from tff_fair.experiments.training.early_stopping import BestEvaluationTracker
from tff_fair.runtime import compilation_cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunParts(plan.Plan):
  """A run's plan, and all that is built from it to train the run."""

  task: tasks.Task
  process: tff.learning.templates.LearningProcess
  next_with_rows: tff.Computation | None  # See `BuiltProcess`.
  prepare_initial_state: Callable[[rounds.State], rounds.State]  # Likewise.
  schedule: loop.Schedule
  costs: Callable[[rounds.State, sampling.DrawnCohort], Mapping[str, int]]
  best_tracker: BestEvaluationTracker | None  # None without a criterion.
  cache: compilation_cache.CompilationCache


def load_task(spec: RunSpec, *, trust: bool = False) -> tasks.Task:
  """Loads the task of a run; its model has the run's initial weights."""
  task = task_loading.load(spec)
  return with_initial_weights(spec, task, trust=trust)


def run_parts(
  spec: RunSpec,
  task: tasks.Task,
  cache: compilation_cache.CompilationCache = compilation_cache.NO_CACHE,
) -> RunParts:
  """Resolves a run's plan, and builds the run's parts from it."""
  run_plan = plan.resolve(spec, task)
  built = learning_process.build(spec, task, run_plan, cache=cache)
  return RunParts(
    **vars(run_plan),
    **built._asdict(),
    task=task,
    schedule=loop.Schedule(
      spec.total_rounds,
      spec.evaluation_interval,
      spec.rounds_per_checkpoint,
      sampling.rounds_before_joining(run_plan.first_rounds),
    ),
    costs=costs.build_round_costs(
      spec, task, built.process, run_plan.aggregation, cache
    ),
    best_tracker=None
    if spec.criterion is None
    else BestEvaluationTracker(
      spec.criterion,
      spec.patience,
      score=run_plan.scores.score,
      on_validation=task.validation is not None,
    ),
    cache=cache,
  )


def process(
  spec: RunSpec, *, trust: bool = False
) -> tff.learning.templates.LearningProcess:
  """Builds the process of a run, without attackers, for remote clients."""
  task = load_task(spec, trust=trust)
  honest = dataclasses.replace(plan.resolve(spec, task), attack=None)
  chosen = learning_process.arguments(spec, task, honest)
  return learning_process.build_uncached(spec, task, chosen)


def with_initial_weights(
  spec: RunSpec, task: tasks.Task, *, trust: bool = False
) -> tasks.Task:
  """Returns the task; if the spec names weights, its model starts from them."""
  name = "initial_run" if spec.initial_model is None else "initial_model"
  place = getattr(spec, name)
  if place is None:
    return task
  path, build = pathlib.Path(place).expanduser(), task.keras_model_fn
  try:
    weights = (
      _weights_from_run(path, build)
      if spec.initial_model is None
      else _weights_from_file(path, trust=trust)
    )
    if not all(np.isfinite(value).all() for value in weights):
      raise ValueError("has weights that are not finite.")
    begun = initial_weights.FixedWeightsBuilder.from_weights(build, weights)
  except (RunError, ValueError) as error:
    problem = str(error).removeprefix(f"{path}: ")
    raise FieldError(name, problem, value=place) from error
  return dataclasses.replace(task, keras_model_fn=begun)


def _weights_from_file(
  path: pathlib.Path, *, trust: bool
) -> Sequence[np.ndarray]:
  """Returns the weights in a model's file, in the order of its layers."""
  model = model_files.load_model(path, trust=trust)
  # An export wraps the trained model in other layers; take the trained model.
  for layer in model.layers:
    if layer.name == trained_model.TRAINED:
      model = layer
  return [weight.numpy() for weight in model.weights]


@keras_state.preserve()
def _weights_from_run(
  path: pathlib.Path, build: KerasModelFn
) -> Sequence[np.ndarray]:
  """Returns a finished run's weights, in the order of its model's layers."""
  run = discovery.open_run(path)
  if not run.is_finished:
    raise ValueError("is not finished; finish that run, or choose another.")
  weights = run.weights()
  with tf.Graph().as_default():
    model = build()
  saved = [*model.trainable_weights, *model.non_trainable_weights]
  if len(saved) != len(weights):
    return weights  # Another architecture; the order of its layers is unknown.
  place_of = {id(variable): place for place, variable in enumerate(saved)}
  return [weights[place_of[id(variable)]] for variable in model.weights]
