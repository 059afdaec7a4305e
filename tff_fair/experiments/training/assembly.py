"""The parts of a run, made from its settings: task, process, sampling, attack.

Problems that show only with the data or with the process are errors of the
setting behind them.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow_federated as tff

import tasks
from tff_fair import (
  client_works,
  compilation_cache,
  methods,
  privacy,
  summing,
  typed_values,
  types,
)
from tff_fair.experiments import number_range, settings
from tff_fair.experiments.errors import SpecError
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  costs,
  kept_tables,
  learning_process,
  private_rounds,
  rounds,
  sampling,
  scoring,
)
from tff_fair.experiments.training.selection import Selection
from tff_fair.experiments.worker_data import reading
from tff_fair.experiments.worker_data.index import WorkerData
from tff_fair.kernels import stacking

_MOST_BYTES_IN_A_MESSAGE = 2**31  # Of protobuf's.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """The parts of a run.

  Attributes:
    task: The clients and the model.
    process: The learning process for the model.
    aggregation: The way in which the process sums client updates.
    clients_per_round: The size of cohorts, or a range of sizes.
    cohorts: How a round draws its clients.
    costs: Returns what a round costs, from the state before it and its cohort.
    evaluated: int64[n], the clients to evaluate, in ascending order.
    attackers: The clients that attack.
    selection: Finds the best evaluation; None if nobody asks.
    dp: The noise for differential privacy, if there is any.
    cache: What earlier programs have compiled.
    worker_data: Files of the examples, if workers have them.
    next_of_own: See `learning_process.Built`.
  """

  task: tasks.Task
  process: tff.learning.templates.LearningProcess
  aggregation: str
  clients_per_round: number_range.Value
  cohorts: sampling.Sampling
  costs: Callable[[rounds.State, sampling.Cohort], Mapping[str, int]]
  evaluated: np.ndarray
  attackers: Sequence[int]
  selection: Selection | None
  dp: privacy.DifferentialPrivacy | None
  cache: compilation_cache.CompilationCache
  worker_data: WorkerData | None = None
  next_of_own: tff.Computation | None = None


def build(
  spec: RunSpec,
  cache: compilation_cache.CompilationCache = compilation_cache.NO_CACHE,
  *,
  worker_data: str | os.PathLike[str] | None = None,
) -> Plan:
  """Makes the parts of a run.

  Args:
    spec: The run.
    cache: What earlier programs have compiled.
    worker_data: A folder of the examples, if workers have one.

  Raises:
    SpecError: If a setting does not go with the data or the method.
    tasks.DataError: If the data cannot be used.
  """
  at_workers = WorkerData(worker_data) if worker_data is not None else None
  task = load_task(spec, at_workers)
  _check_method(spec, task)
  _check_correction(spec, task)
  clients_per_round = _clients_per_round(spec, task.num_clients)
  evaluated = _evaluated(spec, task.num_clients)
  attack = _attack(spec, task.num_clients, evaluated)
  aggregation = _aggregation(spec)
  dp = private_rounds.noise(spec, clients_per_round)
  process, next_of_own = learning_process.build(
    spec, task, aggregation=aggregation, attack=attack, dp=dp, cache=cache
  )
  _check_parts(spec, process, aggregation, clients_per_round)
  kept_tables.check(spec, process, task.num_clients)
  return Plan(
    task=task,
    process=process,
    aggregation=aggregation,
    clients_per_round=clients_per_round,
    cohorts=sampling.Sampling(
      seed=spec.seed,
      kind=spec.sampling,
      clients_per_round=number_range.bounds(clients_per_round),
      dropout=spec.dropout,
      dropout_kind=spec.dropout_kind,
    ),
    costs=costs.build(
      task,
      process,
      aggregation=aggregation,
      loss_at=spec.loss_at,
      trained_examples=_trained_examples(spec, task),
      num_sums=_num_sums(spec, aggregation),
      num_trials=_num_trials(spec),
      cache=cache,
    ),
    evaluated=evaluated,
    attackers=attack.client_ids if attack else (),
    selection=Selection(
      spec.criterion, spec.patience, score=scoring.score_of(task)
    )
    if spec.criterion is not None
    else None,
    dp=dp,
    cache=cache,
    worker_data=at_workers,
    next_of_own=next_of_own,
  )


def build_process(spec: RunSpec) -> tff.learning.templates.LearningProcess:
  """Builds the process of a run for clients elsewhere.

  Nobody attacks.

  Args:
    spec: The run.

  Raises:
    SpecError: If a setting does not go with the data or the method.
    tasks.DataError: If the data cannot be used.
  """
  task = load_task(spec)
  chosen = learning_process.arguments(
    spec,
    task.num_clients,
    _aggregation(spec),
    attack=None,
    dp=private_rounds.noise(spec, _clients_per_round(spec, task.num_clients)),
  )
  return learning_process.build_now(spec, task, chosen)


def load_task(
  spec: RunSpec, at_workers: WorkerData | None = None
) -> tasks.Task:
  """Loads the task of a run, with the run's model.

  Args:
    spec: The run.
    at_workers: Files of the examples, if workers have them.

  Raises:
    SpecError: If an option or the model does not go with the data.
    tasks.DataError: If the data cannot be used.
  """
  try:
    if at_workers is not None:
      task = reading.load_task(at_workers, spec)
    else:
      task = tasks.load(
        spec.task,
        data_dir=spec.data_dir,
        seed=spec.seeds.data,
        model_seed=spec.seeds.model,
        **spec.task_options,
      )
  except (tasks.DataError, SpecError):
    raise
  except tasks.UserCodeError as error:
    raise SpecError("task", error.problem, value=spec.task) from error
  except ValueError as error:
    raise SpecError("task_options", str(error)) from error
  if spec.model is None:
    return task
  try:
    return tasks.with_model(task, spec.model, seed=spec.seeds.model)
  except tasks.UserCodeError as error:
    raise SpecError("model", error.problem, value=spec.model) from error


def _check_method(spec: RunSpec, task: tasks.Task) -> None:
  """Checks that the clients of a task have all that the method asks for.

  Raises:
    SpecError: If they do not.
  """
  if task.num_classes is None and methods.get(spec.algorithm).needs_accuracy:
    raise SpecError(
      "algorithm",
      f"needs the accuracies of clients, and the label of {task.name} is a "
      "number; choose a method that needs losses alone.",
      value=spec.algorithm,
    )


def _check_correction(spec: RunSpec, task: tasks.Task) -> None:
  """Checks that the labels of a task can be corrected.

  Raises:
    SpecError: If they cannot.
  """
  if spec.label_correction == "none":
    return
  problem = None
  if not task.has_class_labels or task.objective.activation == "sigmoid":
    problem = (
      f"the task {task.name} has no class labels (one class for each example); "
      "leave label_correction out."
    )
  elif task.num_clients < 2:
    problem = (
      "the task has one client; expected a clean one beside a noisy one."
    )
  if problem is not None:
    raise SpecError("label_correction", problem, value=spec.label_correction)
  if spec.correction_cohort > task.num_clients:
    raise _too_many(
      "correction_cohort", spec.correction_cohort, task.num_clients
    )


def _clients_per_round(spec: RunSpec, num_clients: int) -> number_range.Value:
  value = spec.clients_per_round
  if spec.sampling == "all":
    if value not in (None, num_clients):
      raise SpecError(
        "clients_per_round",
        f"sampling=all takes all {num_clients} clients in every round; leave "
        "one of the two out.",
        value=value,
      )
    return num_clients
  if value is None:
    return min(settings.USUAL_COHORT, num_clients)
  if number_range.bounds(value)[1] > num_clients:
    raise _too_many("clients_per_round", value, num_clients)
  return value


def _evaluated(spec: RunSpec, num_clients: int) -> np.ndarray:
  number = spec.evaluation_clients
  if number is not None and number > num_clients:
    raise _too_many("evaluation_clients", number, num_clients)
  return sampling.evaluated_clients(spec.seed, num_clients, number)


def _too_many(field: str, value: object, num_clients: int) -> SpecError:
  return SpecError(
    field,
    f"the task has {num_clients} clients; expected 1 to {num_clients}.",
    value=value,
  )


def _attack(
  spec: RunSpec, num_clients: int, evaluated: np.ndarray
) -> client_works.Attack | None:
  if spec.attack == "none" or spec.attack_strength is None:
    return None
  if num_clients < 2:
    raise SpecError(
      "attack",
      "the task has one client; expected an honest one beside it.",
      value=spec.attack,
    )
  ids = sampling.attackers(spec.seed, num_clients, spec.attack_share).tolist()
  if set(evaluated.tolist()) <= set(ids):
    raise SpecError(
      "attack",
      "every client that the run evaluates attacks; evaluate more clients, or "
      "choose another seed.",
      value=spec.attack,
    )
  return client_works.Attack(
    kind=spec.attack, strength=spec.attack_strength, client_ids=tuple(ids)
  )


def _aggregation(spec: RunSpec) -> str:
  valid = methods.get(spec.algorithm).aggregations
  defence = learning_process.defence(spec)
  usual = valid[0]
  # A defence that takes the place of a sum finds one in this way alone.
  if defence and defence.sum_factory and summing.TWO_PHASE in valid:
    usual = summing.TWO_PHASE
  chosen = usual if spec.aggregation is None else spec.aggregation
  if chosen not in valid:
    raise SpecError(
      "aggregation",
      f"not possible for {spec.algorithm}; valid: {', '.join(valid)}.",
      value=chosen,
    )
  return str(chosen)


def _num_sums(spec: RunSpec, aggregation: str) -> int:
  """Returns the number of sums that a client's update goes into."""
  rule = methods.get(spec.algorithm).build.rule
  if (
    aggregation == summing.SECURE
    and spec.dp_noise is None
    and issubclass(rule, types.SeparableRule)
    and rule.has_covariate()
  ):
    return 2
  return 1


def _num_trials(spec: RunSpec) -> int:
  """Returns the number of steps that a client tries in a line search."""
  steps = spec.all_hparams.get("line_search")
  return 2 * steps + 1 if isinstance(steps, int) and steps > 0 else 0


def _check_parts(
  spec: RunSpec,
  process: tff.learning.templates.LearningProcess,
  aggregation: str,
  clients_per_round: number_range.Value,
) -> None:
  """Checks that the updates which a part collects fit into a message."""
  largest = number_range.bounds(clients_per_round)[1]
  part = settings.part_size(spec.clients_per_part, largest)
  if aggregation != summing.STACKED or not part:
    return
  weights = process.initialize.type_signature.result.member.global_model_weights
  update = stacking.row_spec(
    tff.types.type_to_tf_tensor_specs(weights.trainable)
  )
  num_bytes = update.shape.num_elements() * update.dtype.size
  if part * num_bytes >= _MOST_BYTES_IN_A_MESSAGE:
    raise SpecError(
      "clients_per_part",
      f"the {part} updates of a part, of {num_bytes / 2**20:,.0f} MiB each, "
      "pass the 2 GiB of a message; take smaller parts, a smaller model, a "
      "method that does not stack updates, or 0, which cuts nothing.",
      value=part,
    )


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


def describe(spec: RunSpec, plan: Plan) -> str:
  """Returns two lines about a run: its task, and its method."""
  values = ", ".join(
    f"{n}={typed_values.text(v)}" for n, v in spec.all_hparams.items()
  )
  return (
    f"{plan.task.name}: {plan.task.description}\n"
    f"{spec.algorithm}: {values or 'no hyperparameters'}, "
    f"{plan.aggregation} sums"
  )
