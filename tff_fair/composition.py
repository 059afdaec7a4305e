"""Composes a learning process from a rule: what all methods share.

One client work trains and reports signals, one aggregation factory applies the
rule, one finalizer takes the server step.
"""

from collections.abc import Callable
from typing import Any, Required, TypeAlias, TypedDict, Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import (
  checks,
  client_works,
  distributors,
  finalizers,
  learning_rate_decay,
  phased_rounds,
  privacy,
  summing,
  types,
)
from tff_fair.client_works import local_model

ModelFn: TypeAlias = local_model.ModelFn
Optimizer: TypeAlias = tff.learning.optimizers.Optimizer
LearningProcess: TypeAlias = tff.learning.templates.LearningProcess

# From the type of the model's weights, and the decay of the learning rate, to a
# finalizer for them.
Finalizer: TypeAlias = Callable[
  [tff.Type, learning_rate_decay.LearningRateDecay | None],
  tff.learning.templates.FinalizerProcess,
]


class TrainingOptions(TypedDict, total=False):
  """Options of local training; see `tff_fair.client_works.TrainingSettings`."""

  batch_size: int | None
  local_epochs: int | tuple[int, int]
  local_epochs_seed: int
  loss_at: str
  shuffle_seed: int | None
  proximal_mu: float
  learning_rate_decay: float | None
  learning_rate_decay_kind: str


class BuildOptions(TrainingOptions, total=False):
  """Options of every method; see `compose`."""

  server_optimizer: Optimizer | None
  server_learning_rate_decay: float | None
  server_learning_rate_decay_kind: str
  client_weighting: str
  num_clients: int | None
  aggregation: str | None
  sum_factory: tff.aggregators.UnweightedAggregationFactory | None
  secure_bound: float | None
  dp: privacy.DifferentialPrivacy | None
  personal_lam: float | None
  keeps_optimizer_state: bool
  attack: client_works.Attack | None
  defence: summing.Defence | None


class ComposeOptions(BuildOptions, total=False):
  """What a builder hands on to `compose`: the options, and the optimizer."""

  client_optimizer: Required[Optimizer]


def compose(
  model_fn: ModelFn,
  rule: types.Rule,
  *,
  client_optimizer: Optimizer,
  server_optimizer: Optimizer | None = None,
  server_learning_rate_decay: float | None = None,
  server_learning_rate_decay_kind: str = "exponential",
  client_weighting: str = "num_examples",
  num_clients: int | None = None,
  aggregation: str | None = None,
  sum_factory: tff.aggregators.UnweightedAggregationFactory | None = None,
  secure_bound: float | None = None,
  dp: privacy.DifferentialPrivacy | None = None,
  personal_lam: float | None = None,
  keeps_optimizer_state: bool = False,
  objective: Callable[[tf.Tensor], tf.Tensor] | None = None,
  finalizer: Finalizer | None = None,
  attack: client_works.Attack | None = None,
  defence: summing.Defence | None = None,
  **training: Unpack[TrainingOptions],
) -> LearningProcess:
  """Composes the learning process of a rule.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    rule: Chooses the coefficients of the cohort.
    client_optimizer: Trains at the clients; started anew each round, unless it
      `keeps_optimizer_state`.
    server_optimizer: Applies the direction; `None` is SGD of learning rate 1.
    server_learning_rate_decay: As `learning_rate_decay`, of the server's rate,
      where t is the number of steps that the server has taken; `None` keeps it.
    server_learning_rate_decay_kind: "exponential" or "inverse_time".
    client_weighting: What p_k is: "num_examples", n_k over its sum in the
      cohort, or "uniform", 1/m.
    num_clients: Size of the population, for methods that need to know it.
    aggregation: How updates are summed: "streaming", "two_phase", "stacked" or
      "secure"; `None` takes the cheapest the rule allows.
    sum_factory: Sums scaled updates in the two-phase way, and all that clients
      send in the secure way; must return a sum, no mean.
    secure_bound: The largest absolute value in what a client adds to a secure
      sum; a client beyond it is left out. `None` is 1024.
    dp: Noise for differential privacy, see `tff_fair.privacy.dp`; `None` adds
      none.
    personal_lam: Trains personal models beside the global one, with this pull
      towards it (Ditto); `None` trains none.
    keeps_optimizer_state: Whether a client's optimizer goes on from its state
      in the client's last round, so that it keeps its momentum.
    objective: What clients minimize, from the mean loss of a minibatch; `None`
      is the loss itself.
    finalizer: Builds the server step; `None` applies the `server_optimizer`.
    attack: Which clients report something else than they found, for a study;
      `None` if nobody does.
    defence: Bounds what single updates can do; `None` trusts all that count.
    **training: The attributes of `tff_fair.client_works.TrainingSettings`:
      `batch_size`, `local_epochs` (a number, or the least and the greatest that
      clients draw), `local_epochs_seed`, `loss_at`, `shuffle_seed`,
      `proximal_mu`, `learning_rate_decay`, `learning_rate_decay_kind`.

  Returns:
    A `tff.learning.templates.LearningProcess` whose `next` has the type
    (<S@SERVER, {<int64, B>*}@CLIENTS> -> <state=S@SERVER, metrics=M@SERVER>);
    `tff_fair.client_dataset` makes a client's data. The metrics are
    `client_work` (`train`: the model's metrics during training), `aggregator`
    (see `tff_fair.aggregators.RuleFactory`) and `finalizer`.

  Raises:
    TypeError: If an argument has the wrong type.
    OptionError: If an argument has a wrong value; a `ValueError`.
  """
  if num_clients is not None:
    checks.check_integer("num_clients", num_clients, minimum=1)
  if server_optimizer is not None and finalizer is not None:
    raise checks.OptionError(
      "server_optimizer",
      "This method has a server step of its own, set by its hyperparameters: "
      "leave server_optimizer out.",
    )
  server_decay = learning_rate_decay.build(
    "server_learning_rate_decay",
    server_learning_rate_decay,
    server_learning_rate_decay_kind,
  )
  server_optimizer = server_optimizer_or_default(server_optimizer)
  check_optimizer("client_optimizer", client_optimizer)
  factory = summing.RuleFactory(
    rule,
    aggregation=aggregation,
    client_weighting=client_weighting,
    sum_factory=sum_factory,
    secure_bound=secure_bound,
    dp=dp,
    defence=defence,
  )
  kept = client_works.Keeping(
    personal_lam=personal_lam, optimizer_state=keeps_optimizer_state
  )
  if kept:
    _check_kept(factory, dp)
  info = local_model.describe(model_fn)
  settings = client_works.TrainingSettings(objective=objective, **training)
  _check_learning_rate(rule, client_optimizer, settings)
  work = client_works.MethodWork(
    model_fn=model_fn,
    optimizer=client_optimizer,
    settings=settings,
    signals=rule.signals,
    kept=kept,
    attack=attack,
    securely=factory.sums_securely,
  )
  parts = phased_rounds.RoundParts(
    _build_distributor(info, rule),
    work,
    factory,
    finalizer(info.weights_type, server_decay)
    if finalizer
    else finalizers.build_apply_direction(
      server_optimizer, info.weights_type, server_decay
    ),
  )
  return phased_rounds.with_phases(
    _compose_parts(
      info,
      parts.distributor,
      work.build(),
      factory,
      parts.finalizer,
      updates_checked=True,
    ),
    parts,
  )


def compose_client_work(
  model_fn: ModelFn,
  client_work: tff.learning.templates.ClientWorkProcess,
  factory: summing.RuleFactory,
  *,
  server_optimizer: Optimizer | None = None,
) -> LearningProcess:
  """Composes the learning process of client work of your own.

      work = tff_fair.client_works.build_from_computation(train)
      term = tff_fair.aggregators.TermFactory(t=2.0)
      process = tff_fair.composition.compose_client_work(model_fn, work, term)

  Args:
    model_fn: Gives the initial weights; see `compose`.
    client_work: From the weights W and a client's data to a
      `tff.learning.templates.ClientResult`. Its `update` is the initial minus
      the trained weights. Its `update_weight` is `tff_fair.ClientSignals`, or a
      structure of `client_id`, `num_examples` and the signals of the rule.
    factory: Sums the updates by a rule; one of `tff_fair.aggregators`.
    server_optimizer: Applies the direction; `None` is SGD of learning rate 1.

  Returns:
    A `tff.learning.templates.LearningProcess`, which takes the data that the
    client work takes.

  Raises:
    TypeError: If an argument has the wrong type, or clients do not report a
      signal that the rule needs.
  """
  if not isinstance(factory, summing.RuleFactory):
    raise TypeError(
      "Expected `factory` to be one of tff_fair.aggregators, found "
      f"{type(factory).__name__}. Make one of a rule of your own with "
      "tff_fair.aggregators.RuleFactory(rule)."
    )
  info = local_model.describe(model_fn)
  return _compose_parts(
    info,
    tff.learning.templates.build_broadcast_process(info.weights_type),
    client_work,
    factory,
    finalizers.build_apply_direction(
      server_optimizer_or_default(server_optimizer), info.weights_type
    ),
  )


def _compose_parts(
  info: local_model.ModelInfo,
  distributor: tff.learning.templates.DistributionProcess,
  client_work: tff.learning.templates.ClientWorkProcess,
  factory: summing.RuleFactory,
  finalizer: tff.learning.templates.FinalizerProcess,
  *,
  updates_checked: bool = False,
) -> LearningProcess:
  """Composes a process of its parts; see `compose_client_work`.

  Args:
    info: Of the model.
    distributor: Sends the clients their weights.
    client_work: The clients' work.
    factory: Sums their updates.
    finalizer: The server step.
    updates_checked: See `tff_fair.summing.RuleFactory.create_for_rounds`.
  """
  result_type: Any = client_work.next.type_signature.result.result.member
  return tff.learning.templates.compose_learning_process(
    info.initial_weights,
    distributor,
    client_work,
    factory.create_for_rounds(
      result_type.update,
      result_type.update_weight,
      updates_checked=updates_checked,
    ),
    finalizer,
  )


def _check_kept(
  factory: summing.RuleFactory, dp: privacy.DifferentialPrivacy | None
) -> None:
  """Raises if what clients keep would tell the server what a sum hides."""
  for option, is_given in (
    ("aggregation", factory.aggregation == summing.SECURE),
    ("dp", dp is not None),
  ):
    if is_given:
      raise checks.OptionError(
        option,
        "Clients keep personal models or momentum here. Both travel to the "
        "server in the clear, those of each client by themselves: leave "
        f"{option} out, or let clients keep nothing.",
      )


def _build_distributor(
  info: local_model.ModelInfo, rule: types.Rule
) -> tff.learning.templates.DistributionProcess:
  """Builds what sends the weights, those of the first round too if need be."""
  if "initial_loss" in rule.signals:
    return distributors.build_with_initial_weights(info.weights_type)
  return tff.learning.templates.build_broadcast_process(info.weights_type)


def _check_learning_rate(
  rule: types.Rule,
  client_optimizer: Optimizer,
  settings: client_works.TrainingSettings,
) -> None:
  """Raises if the client optimizer lacks a learning rate that is needed."""
  if (
    "learning_rate" in rule.signals or settings.learning_rate_decay is not None
  ) and learning_rate(client_optimizer) is None:
    raise checks.OptionError(
      "client_optimizer",
      "A client optimizer with the hyperparameter learning_rate is needed, for "
      "its decay or because the method uses it; this one has none.",
    )


def server_optimizer_or_default(optimizer: Optimizer | None) -> Optimizer:
  """Returns a checked server optimizer; for `None` SGD of learning rate 1."""
  if optimizer is None:
    return tff.learning.optimizers.build_sgdm(1.0)
  check_optimizer("server_optimizer", optimizer)
  return optimizer


def with_proximal_term(options: ComposeOptions, mu: float) -> ComposeOptions:
  """Returns options with the `mu` of a method as their `proximal_mu`.

  Args:
    options: What a builder got.
    mu: The method's own; 0 leaves the options as they are.

  Raises:
    OptionError: If the options have a proximal term too.
  """
  if mu == 0:
    return options
  if options.get("proximal_mu", 0) != 0:
    raise checks.OptionError(
      "proximal_mu",
      f"This method's proximal term is its hyperparameter mu, here {mu:g}; "
      f"found proximal_mu={options['proximal_mu']!r} beside it. Leave "
      "proximal_mu out, and set mu.",
    )
  return {**options, "proximal_mu": mu}


def check_optimizer(name: str, optimizer: Optimizer) -> None:
  """Raises unless `optimizer` is a TFF optimizer that keeps its state.

  Args:
    name: The name of the option, for the error.
    optimizer: The optimizer.

  Raises:
    TypeError: If it is no TFF optimizer.
    OptionError: If `set_hparams` returns something else than its state.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      f"Expected `{name}` to be a tff.learning.optimizers.Optimizer, found "
      f"{type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  same = optimizer.set_hparams(state, optimizer.get_hparams(state))
  try:
    tf.nest.assert_same_structure(state, same)
  except (TypeError, ValueError) as error:
    # TFF's Adafactor returns the hyperparameters alone.
    raise checks.OptionError(
      name,
      f"The `{name}`, {type(optimizer).__name__}, cannot be used: its "
      "set_hparams does not return a state as its initialize does. Take "
      "another one, for instance tff.learning.optimizers.build_adam.",
    ) from error


def learning_rate(optimizer: Optimizer) -> float | None:
  """Returns the learning rate of an optimizer, `None` if it has none."""
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  rate = optimizer.get_hparams(state).get(
    tff.learning.optimizers.LEARNING_RATE_KEY
  )
  return None if rate is None else float(rate)
