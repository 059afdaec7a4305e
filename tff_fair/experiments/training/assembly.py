"""The parts of a run, made from its settings: task, process, sampling, attack.

Problems that show only with the process are errors of the setting behind them.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow_federated as tff

import tasks
from tff_fair import (
  client_works,
  declared,
  methods,
  privacy,
  summing,
  types,
)
from tff_fair.experiments import number_range
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  costs,
  initial_weights,
  learning_process,
  message_limits,
  private_rounds,
  resolving,
  rounds,
  sampling,
  scoring,
  task_loading,
)
from tff_fair.experiments.training.selection import Selection
from tff_fair.experiments.worker_data.index import WorkerData
from tff_fair.runtime import compilation_cache


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
    FieldError: If a setting does not go with the data or the method.
    tasks.DataError: If the data cannot be used.
  """
  at_workers = WorkerData(worker_data) if worker_data is not None else None
  task = initial_weights.begin(spec, task_loading.load(spec, at_workers))
  resolving.check(spec, task)
  clients_per_round = resolving.clients_per_round(spec, task.num_clients)
  evaluated = resolving.evaluated(spec, task.num_clients)
  attack = resolving.attack(spec, task.num_clients, evaluated)
  aggregation = resolving.aggregation(spec)
  dp = private_rounds.noise(spec, clients_per_round)
  process, next_of_own = learning_process.build(
    spec, task, aggregation=aggregation, attack=attack, dp=dp, cache=cache
  )
  message_limits.check_parts(spec, process, aggregation, clients_per_round)
  message_limits.check_tables(spec, process, task.num_clients)
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
    FieldError: If a setting does not go with the data or the method.
    tasks.DataError: If the data cannot be used.
  """
  task = initial_weights.begin(spec, task_loading.load(spec))
  aggregation = resolving.aggregation(spec)
  clients_per_round = resolving.clients_per_round(spec, task.num_clients)
  dp = private_rounds.noise(spec, clients_per_round)
  chosen = learning_process.arguments(
    spec, task, aggregation, attack=None, dp=dp
  )
  return learning_process.build_now(spec, task, chosen)


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
    f"{n}={declared.as_text(v)}" for n, v in spec.all_hparams.items()
  )
  return (
    f"{plan.task.name}: {plan.task.description}\n"
    f"{spec.algorithm}: {values or 'no hyperparameters'}, "
    f"{plan.aggregation} sums"
  )
