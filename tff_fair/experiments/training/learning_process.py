"""Builds the learning process of a run, or loads it from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

import tasks
from tasks.models import initial_weights
from tff_fair import algorithms, client_works, methods, optimizers
from tff_fair.client_works import client_state, local_model
from tff_fair.declared import FieldError
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.settings import learning
from tff_fair.experiments.training import plan, rounds, sampling
from tff_fair.runtime import compilation_cache

# The arguments of `build_optimizer`: name, learning rate, momentum.
_Optimizer = tuple[str, float, float | None]

# Settings by argument of `algorithms.build`, where the two names differ.
_SETTINGS_OF_OPTIONS = {
  "dp": "dp_noise",
  "keeps_optimizer_state": "client_momentum_kept",
  "learning_rate_decay": "client_learning_rate_decay",
}

_NEXT_WITH_ROWS = "next_with_rows"
# The client learning rate in cached computations; a run's state overrides it.
_SHARED_RATE = 1.0


class BuiltProcess(NamedTuple):
  """A process, shared by runs that differ in seeds or client learning rates."""

  process: tff.learning.templates.LearningProcess
  next_with_rows: tff.Computation | None  # For `CohortRowsProcess`.
  # Sets the seed, the client learning rate and the initial weights.
  prepare_initial_state: Callable[[rounds.State], rounds.State]


def build(
  spec: RunSpec,
  task: tasks.Task,
  run_plan: plan.Plan,
  *,
  cache: compilation_cache.CompilationCache = compilation_cache.NO_CACHE,
  **others: Any,
) -> BuiltProcess:
  """Returns a run's process, from the cache if possible.

  `others` override the arguments that the function `arguments` returns.
  """
  shared = initial_weights.with_seed_0(task)
  chosen = {**arguments(spec, task, run_plan), "shuffle_seed": 0}
  # The seed matters only if clients draw their numbers of steps or epochs.
  if not isinstance(chosen["local_steps"] or chosen["local_epochs"], tuple):
    chosen["local_epochs_seed"] = 0
  chosen |= others
  name, rate, momentum = chosen["client_optimizer"]
  chosen["client_optimizer"] = name, _SHARED_RATE, momentum

  def computations() -> compilation_cache.Computations:
    process = build_uncached(spec, shared, chosen)
    single_phase = getattr(process.next, "single_phase", None)
    return {
      **({} if single_phase is None else {_NEXT_WITH_ROWS: single_phase}),
      "initialize_fn": process.initialize,
      "next_fn": process.next,
      "get_model_weights": process.get_model_weights,
      "set_model_weights": process.set_model_weights,
      "get_hparams_fn": process.get_hparams,
      "set_hparams_fn": process.set_hparams,
    }

  compiled = {
    **cache.computations(
      ("process", spec.algorithm, chosen, shared.model_parts), computations
    )
  }
  next_with_rows = compiled.pop(_NEXT_WITH_ROWS, None)
  process = tff.learning.templates.LearningProcess(**compiled)

  def begin(state: rounds.State) -> rounds.State:
    state = _with_shuffle_seed(state, spec.seed)
    state = _with_client_rate(process, state, rate)
    if shared is task:
      return state
    return process.set_model_weights(state, _initial_weights(task, cache))

  return BuiltProcess(process, next_with_rows, begin)


def _initial_weights(
  task: tasks.Task, cache: compilation_cache.CompilationCache
) -> tff.learning.models.ModelWeights:
  """Returns a task's initial weights, bitwise equal to those of a process."""
  # A process computes them in a TFF computation, too; eager results may differ
  # in the last bits.
  comp = cache.computations(
    ("initial_weights", task.model_parts),
    lambda: {"weights": local_model.describe(task.model).initial_weights},
  )["weights"]
  return comp()


def _with_client_rate(
  process: tff.learning.templates.LearningProcess,
  state: rounds.State,
  rate: float,
) -> rounds.State:
  hparams = process.get_hparams(state)
  of_clients = hparams["client_work"]
  of_clients = type(of_clients)(of_clients, learning_rate=np.float32(rate))
  return process.set_hparams(
    state, type(hparams)(hparams, client_work=of_clients)
  )


def _with_shuffle_seed(state: rounds.State, seed: int) -> rounds.State:
  work = state.client_work
  # If clients keep a state, `work` has several parts; one is that of training.
  is_beside = client_state.TRAINING in work
  training = work[client_state.TRAINING] if is_beside else work
  training = type(training)(
    training, shuffle_seed=client_works.seed_in_64_bits(seed)
  )
  work = type(work)(work, training=training) if is_beside else training
  return state._replace(client_work=work)


def build_uncached(
  spec: RunSpec, task: tasks.Task, chosen: Mapping[str, Any]
) -> tff.learning.templates.LearningProcess:
  """Builds a run's process with the arguments `chosen`, without the cache."""
  built = {
    name: build_optimizer(*chosen[name])
    for name in ("client_optimizer", "server_optimizer")
    if name in chosen
  }
  try:
    return algorithms.build(spec.algorithm, task.model, **{**chosen, **built})
  except ValueError as error:
    raise _build_error(spec, error) from error


def arguments(
  spec: RunSpec, task: tasks.Task, run_plan: plan.Plan
) -> dict[str, Any]:
  """Returns a run's arguments for `algorithms.build`, except the model."""
  correction = {
    "local_correction": "scaffold",
    "num_participants": sampling.num_participants(run_plan.first_rounds),
  }
  return {
    "hparams": spec.all_hparams,
    "client_optimizer": client_optimizer(spec),
    **_server_optimizer(spec),
    "client_weighting": client_weighting(spec, task),
    "num_clients": task.num_clients,
    "aggregation": run_plan.aggregation,
    "secure_bound": spec.secure_bound,
    "dp": run_plan.dp,
    "personal_lam": spec.personal_lam,
    "keeps_optimizer_state": spec.client_momentum_kept,
    **(correction if spec.corrects_steps else {}),
    "group_shares": group_shares(spec, task, run_plan.first_rounds),
    "attack": run_plan.attack,
    "defence": run_plan.defence,
    "certificate": spec.measures_stationarity,
    "tape": spec.tape,
    **spec.local_work,
    "server_learning_rate_decay": spec.server_learning_rate_decay,
    "server_learning_rate_decay_kind": (
      spec.server_learning_rate_decay_kind or "exponential"
    ),
  }


def group_shares(
  spec: RunSpec, task: tasks.Task, first_rounds: np.ndarray
) -> tuple[int, ...] | None:
  """Returns each group's number of training examples, which FedMinMax needs.

  For other methods, returns None.
  """
  if spec.algorithm != plan.FEDMINMAX:
    return None
  assert task.train.groups is not None  # `plan.resolve` has checked it.
  assert task.group_names is not None
  ids = np.flatnonzero(sampling.participates(first_rounds))
  groups = np.concatenate([task.train.groups(k) for k in ids.tolist()])
  counts = np.bincount(groups, minlength=len(task.group_names))
  return tuple(counts.tolist())


def client_optimizer(spec: RunSpec) -> _Optimizer:
  """Returns the arguments of `build_optimizer` for the clients' optimizer."""
  rate, momentum = spec.client_learning_rate, spec.client_momentum
  return spec.client_optimizer, rate, momentum


def client_weighting(
  spec: RunSpec, task: tasks.Task
) -> str | tuple[float, ...]:
  """Returns the argument `client_weighting` of `algorithms.build`."""
  if spec.client_weighting != "column":
    return spec.client_weighting
  if task.client_weights is None:
    raise FieldError(
      "client_weighting",
      f"{spec.task} has no weights of clients; name the column that has them "
      "with the task's option client_weight (table, arrays, tfds), or give "
      "client_weights to tasks.from_client_data.",
      value=spec.client_weighting,
    )
  return tuple(task.client_weights.tolist())


def _server_optimizer(spec: RunSpec) -> dict[str, _Optimizer]:
  # If the method has its own server step, its rate is a hyperparameter.
  if spec.has_own_server_step or (
    spec.server_optimizer is None and spec.server_learning_rate is None
  ):
    return {}
  return {
    "server_optimizer": (
      spec.server_optimizer or "sgd",
      spec.server_learning_rate or 1.0,
      spec.server_momentum,
    )
  }


def _build_error(spec: RunSpec, error: ValueError) -> FieldError:
  """Turns a builder's error into one about the setting that caused it."""
  if isinstance(error, FieldError):
    if error.field in methods.hyperparameters(spec.algorithm):
      return error.within("hparams", spec.hparams.get(error.field))
    field = _SETTINGS_OF_OPTIONS.get(error.field, error.field)
    if field in spec.fields():
      return FieldError(field, error.problem)
  return FieldError("algorithm", str(error), value=spec.algorithm)


def build_optimizer(
  name: str, learning_rate: float, momentum: float | None
) -> tff.learning.optimizers.Optimizer:
  """Returns the TFF optimizer called `name`, with this rate and momentum."""
  kind = "sgdm" if name in ("sgd", "momentum") else name
  is_ours = kind in ("nesterov", "amsgrad")
  module = optimizers if is_ours else tff.learning.optimizers
  build_optimizer = getattr(module, f"build_{kind}")
  if name in learning.WITH_MOMENTUM:
    momentum = learning.MOMENTUM if momentum is None else momentum
    return build_optimizer(learning_rate, momentum)
  return build_optimizer(learning_rate)


def has_personal_models(
  process: tff.learning.templates.LearningProcess,
) -> bool:
  """Returns whether a process also trains a model for each client."""
  state_type = process.initialize.type_signature.result.member
  return hasattr(state_type.client_work, client_state.PERSONAL)
