"""The parts of a run, made from its settings and its task.

Problems that show only with the process are errors of the setting behind them.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.models import made
from tasks.task import KerasModelFn
from tff_fair import (
  client_works,
  methods,
  summing,
  types,
)
from tff_fair.declared import FieldError
from tff_fair.experiments import keras_files
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import finding, trained_model
from tff_fair.experiments.settings import bounds
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  costs,
  learning_process,
  loop,
  resolving,
  rounds,
  sampling,
  task_loading,
)
from tff_fair.experiments.training.loop import Selection
from tff_fair.experiments.worker_data.index import WorkerData
from tff_fair.runtime import compilation_cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunParts(resolving.Resolved):
  """The parts of a run, and what its settings come to.

  Attributes:
    task: The clients and the model.
    process: The learning process for the model.
    next_of_own: See `learning_process.Built`.
    begin: See `learning_process.Built`.
    schedule: How long the run trains, and when it evaluates and saves.
    cohorts: How a round draws its clients.
    costs: Returns what a round costs, from the state before it and its cohort.
    selection: Finds the best evaluation; None without a criterion.
    cache: What earlier programs have compiled.
  """

  task: tasks.Task
  process: tff.learning.templates.LearningProcess
  next_of_own: tff.Computation | None
  begin: Callable[[rounds.State], rounds.State]
  schedule: loop.Schedule
  cohorts: sampling.Sampling
  costs: Callable[[rounds.State, sampling.DrawnCohort], Mapping[str, int]]
  selection: Selection | None
  cache: compilation_cache.CompilationCache


def load_task(
  spec: RunSpec, at_workers: WorkerData | None = None
) -> tasks.Task:
  """Loads the task of a run; its model begins with the run's initial weights.

  Args:
    spec: The run.
    at_workers: Files of the examples, if workers have them.

  Raises:
    FieldError: If a setting does not go with the data.
    tasks.DataError: If the data cannot be used.
  """
  return with_initial_weights(spec, task_loading.load(spec, at_workers))


def build(
  spec: RunSpec,
  task: tasks.Task,
  resolved: resolving.Resolved,
  cache: compilation_cache.CompilationCache = compilation_cache.NO_CACHE,
) -> RunParts:
  """Makes the parts of a run.

  Args:
    spec: The run.
    task: Its task, as `load_task` returns it.
    resolved: What the settings come to with the task.
    cache: What earlier programs have compiled.

  Raises:
    FieldError: If a setting does not go with the data or the method.
  """
  built = learning_process.build(
    spec,
    task,
    aggregation=resolved.aggregation,
    attack=resolved.attack,
    dp=resolved.dp,
    cache=cache,
  )
  learning_process.check_parts(
    spec, built.process, resolved.aggregation, resolved.clients_per_round
  )
  learning_process.check_tables(spec, built.process, task.num_clients)
  return RunParts(
    **vars(resolved),
    **built._asdict(),
    task=task,
    schedule=loop.Schedule(
      spec.total_rounds,
      spec.evaluation_interval,
      spec.rounds_per_checkpoint,
      spec.stop_at_stationarity,
    ),
    cohorts=sampling.Sampling(
      seed=spec.seed,
      kind=spec.sampling,
      clients_per_round=bounds.range_ends(resolved.clients_per_round),
      dropout=spec.dropout,
      dropout_kind=spec.dropout_kind,
      dropout_rounds=spec.dropout_rounds,
    ),
    costs=costs.build(
      task,
      built.process,
      aggregation=resolved.aggregation,
      loss_at=spec.loss_at,
      trained_examples=_trained_examples(spec, task),
      num_sums=_num_sums(spec, resolved.aggregation),
      num_trials=_num_trials(spec),
      cache=cache,
    ),
    selection=None
    if spec.criterion is None
    else Selection(spec.criterion, spec.patience, score=resolved.scores.score),
    cache=cache,
  )


def build_process(spec: RunSpec) -> tff.learning.templates.LearningProcess:
  """Builds the process of a run for clients elsewhere, none of which attacks.

  Args:
    spec: The run.

  Raises:
    FieldError: If a setting does not go with the data or the method.
    tasks.DataError: If the data cannot be used.
  """
  task = load_task(spec)
  aggregation = resolving.aggregation(spec)
  clients_per_round = resolving.clients_per_round(spec, task.num_clients)
  dp = resolving.privacy_noise(spec, clients_per_round)
  chosen = learning_process.arguments(
    spec, task, aggregation, attack=None, dp=dp
  )
  return learning_process.build_now(spec, task, chosen)


def _num_sums(spec: RunSpec, aggregation: str) -> int:
  """Returns the number of sums that a client's update goes into."""
  rule = methods.get(spec.algorithm).build.rule
  if aggregation != summing.SECURE or spec.dp_noise is not None:
    return 1
  if issubclass(rule, types.ComparingRule):
    return rule.num_factors
  has_two = issubclass(rule, types.SeparableRule) and rule.has_covariate()
  return 2 if has_two else 1


def _num_trials(spec: RunSpec) -> int:
  """Returns the number of steps that a client tries in a line search."""
  steps = spec.all_hparams.get("line_search")
  return 2 * steps + 1 if isinstance(steps, int) and steps > 0 else 0


def _trained_examples(spec: RunSpec, task: tasks.Task) -> costs.TrainedExamples:
  """Returns a function from clients and a state to their examples after it."""
  training = client_works.TrainingSettings(
    batch_size=spec.batch_size, **learning_process.local_work(spec)
  )

  def of_clients(client_ids: Sequence[int], state: rounds.State) -> np.ndarray:
    client_work = state.client_work
    # Where clients keep something, tables of it are beside it.
    round_num = client_work.get("training", client_work)["round_num"]
    return np.array(
      [
        client_works.num_trained_examples(
          training, int(task.train.num_examples[k]), k, round_num
        )
        for k in client_ids
      ],
      np.int64,
    )

  return of_clients


# Initial weights from a trained model: a file's, or another run's.


def with_initial_weights(spec: RunSpec, task: tasks.Task) -> tasks.Task:
  """Returns a task whose model begins with the weights that a run names.

  Args:
    spec: The run; it may name none.
    task: Its task.

  Raises:
    FieldError: If they cannot be read, or are not those of the task's model.
  """
  name = "initial_run" if spec.initial_model is None else "initial_model"
  place = getattr(spec, name)
  if place is None:
    return task
  path, build = pathlib.Path(place).expanduser(), task.keras_model_fn
  read = _of_run if spec.initial_model is None else _of_file
  try:
    weights = read(path, build)
    if not all(np.isfinite(value).all() for value in weights):
      raise ValueError("has weights that are not finite.")
    begun = made.Starting.of(build, weights)
  except (RunError, ValueError) as error:
    problem = str(error).removeprefix(f"{path}: ")
    raise FieldError(name, problem, value=place) from error
  return dataclasses.replace(task, keras_model_fn=begun)


def _of_file(path: pathlib.Path, _: KerasModelFn) -> Sequence[np.ndarray]:
  """Returns the weights of a file, in the order of the model's layers."""
  model = keras_files.load(path)
  # The model of an export, without what is around it.
  for layer in model.layers:
    if layer.name == trained_model.TRAINED:
      model = layer
  return [weight.numpy() for weight in model.weights]


def _of_run(path: pathlib.Path, build: KerasModelFn) -> Sequence[np.ndarray]:
  """Returns the weights of a run, in the order of the model's layers."""
  run = finding.open_run(path)
  if not run.is_finished:
    raise ValueError("is not finished; finish that run, or choose another.")
  weights = run.weights()
  with tf.Graph().as_default():
    model = build()
  saved = [*model.trainable_weights, *model.non_trainable_weights]
  if len(saved) != len(weights):
    return weights  # The order of another model is not known.
  place_of = {id(variable): place for place, variable in enumerate(saved)}
  return [weights[place_of[id(variable)]] for variable in model.weights]
