"""Composes a learning process from a rule, or from a user's client work.

All methods share one client work, which trains and reports signals; one
aggregation factory, which applies the rule; and one finalizer for the server
step, unless a method has its own finalizer. A line search may set the step's
length.
"""

import collections
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import (
  client_works,
  declared,
  finalizers,
  keras_state,
  privacy,
  spelling,
  summing,
  types,
)
from tff_fair.client_works import group_weights, local_model
from tff_fair.kernels import stacking
from tff_fair.optimizers import learning_rate_decay, optimizer_checks
from tff_fair.rounds import line_search as line_search_lib, phased_rounds
from tff_fair.rounds.line_search import LineSearch
from tff_fair.rounds.options import (
  Finalizer,
  LearningProcess,
  LocalCorrection,
  ModelFn,
  Optimizer,
  ProcessOptions,
  TrainingOptions,
)


@keras_state.preserve()
def compose(
  model_fn: ModelFn,
  rule: types.Rule,
  *,
  client_optimizer: Optimizer,
  server_optimizer: Optimizer | None = None,
  server_learning_rate_decay: float | None = None,
  server_learning_rate_decay_kind: str = "exponential",
  num_clients: int | None = None,
  personal_lam: float | None = None,
  keeps_optimizer_state: bool = False,
  local_correction: LocalCorrection = "none",
  num_participants: int | None = None,
  objective: Callable[[tf.Tensor], tf.Tensor] | None = None,
  takes_snapshot: bool = False,
  group_shares: Sequence[float] | None = None,
  group_learning_rate: float | None = None,
  finalizer: Finalizer | None = None,
  line_search: LineSearch | None = None,
  attack: client_works.Attack | None = None,
  **options: Unpack[ProcessOptions],
) -> LearningProcess:
  """Composes the learning process of a rule.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    rule: Chooses the coefficients of the cohort.
    client_optimizer: Trains at the clients. Its state is initialized in each
      round, unless `keeps_optimizer_state`.
    server_optimizer: Applies the direction; `None` is SGD of learning rate 1.
    server_learning_rate_decay: Decay of the server's learning rate, set like
      `learning_rate_decay`, but with t the number of server steps so far;
      `None` keeps the rate constant.
    server_learning_rate_decay_kind: "exponential" or "inverse_time".
    num_clients: Size of the population, for methods that need it.
    personal_lam: Trains personal models (Ditto), with this pull towards the
      global model; `None` trains no personal models.
    keeps_optimizer_state: Whether a client's optimizer continues from its state
      in the client's last round, and so keeps its momentum.
    local_correction: "scaffold" corrects the drift of clients' steps by
      control variates, which clients keep; see
      `tff_fair.client_works.control_variates`. The client optimizer must then
      be SGD without momentum.
    num_participants: How many clients may take part, for SCAFFOLD; `None` is
      `num_clients`.
    objective: What clients minimize, a function of a minibatch's mean loss;
      `None` is the loss itself.
    takes_snapshot: Whether the state has the mean of the clients' weights at a
      random local step (DRFA); see `tff_fair.client_works.TrainingSettings`.
    group_shares: How many examples each group of people has over all clients,
      to weight examples by group (FedMinMax). A client's data are then batches
      `(x, y, group)`; group, int32[n], has indices into `group_shares`.
    group_learning_rate: The learning rate of the groups' weights; needs
      `group_shares`.
    finalizer: Builds the server step; `None` applies the `server_optimizer`.
    line_search: Chooses the length of the server's step by the losses that
      clients would have after it. The rule must report `slopes`. `None` takes
      a step at the server's learning rate.
    attack: Which clients report false losses or updates, for a study; `None`
      if no client does.
    **options: For aggregation, the options of
      `tff_fair.aggregators.RuleFactory` (with a `tape`, clients measure all
      `ClientSignals`); for local training, the attributes of
      `tff_fair.client_works.TrainingSettings` except for `objective`.

  Returns:
    A `tff.learning.templates.LearningProcess` whose `next` has the type
    (<S@SERVER, {<int64, B>*}@CLIENTS> -> <state=S@SERVER, metrics=M@SERVER>);
    `tff_fair.client_dataset` makes a client's data. The metrics are
    `client_work` (`train`: the model's metrics during training), `aggregator`
    (see `tff_fair.aggregators.RuleFactory`) and `finalizer`; with a search also
    `line_search`, see `tff_fair.rounds.line_search.with_line_search`.

  Raises:
    TypeError: If an argument has the wrong type.
    FieldError: If an argument has a wrong value; a `ValueError`.
  """
  check_keywords(options)
  if num_clients is not None:
    declared.check_integer("num_clients", num_clients, minimum=1)
  server_decay = learning_rate_decay.build(
    "server_learning_rate_decay",
    server_learning_rate_decay,
    server_learning_rate_decay_kind,
  )
  build_finalizer = _server_step(finalizer, server_optimizer)
  optimizer_checks.check_optimizer("client_optimizer", client_optimizer)
  factory = summing.RuleFactory(
    rule, **_select_options(summing.FactoryOptions, options)
  )
  work = client_works.MethodWork(
    model_fn=model_fn,
    optimizer=client_optimizer,
    settings=client_works.TrainingSettings(
      objective=objective,
      takes_snapshot=takes_snapshot,
      groups=_groups(group_shares, group_learning_rate),
      **_select_options(TrainingOptions, options),
    ),
    signals=types.MEASURED_SIGNALS if options.get("tape") else rule.signals,
    securely=factory.sums_securely,
    persistent_state=client_works.PersistentState(
      personal_lam=personal_lam,
      optimizer_state=keeps_optimizer_state,
      controlled_clients=_num_controlled(
        local_correction, num_participants, num_clients
      ),
    ),
    attack=attack,
  )
  if work.persistent_state:
    _check_client_state(factory, options.get("dp"))
  if work.settings.groups:
    _check_groups(personal_lam, options.get("dp"))
  _check_learning_rate(rule, work)
  if line_search is not None:
    _check_line_search(server_optimizer, work, has_own_step=bool(finalizer))
  parts = phased_rounds.RoundParts(
    _build_distributor(work),
    work,
    factory,
    build_finalizer(work.info.weights_type, server_decay),
  )
  return _compose_rounds(parts, line_search, server_decay)


def _select_options(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
  """Returns only the options that are keys of `kind`, a `TypedDict`."""
  return {n: v for n, v in options.items() if n in kind.__annotations__}


def check_keywords(
  given: Iterable[str], hyperparameters: Iterable[str] = ()
) -> None:
  """Checks that keywords are options of `compose`, or a method's own.

  Raises:
    TypeError: If a keyword is neither an option nor one of the method's
      `hyperparameters`; the message suggests a similar one.
  """
  parameters = inspect.signature(compose).parameters.values()
  known = [
    *hyperparameters,
    *(p.name for p in parameters if p.kind == p.KEYWORD_ONLY),
    *ProcessOptions.__annotations__,
  ]
  for name in given:
    if name not in known:
      advice = spelling.advice(name, known, "keywords")
      raise TypeError(f"unknown keyword {name!r}; {advice}")


def _compose_rounds(
  parts: phased_rounds.RoundParts,
  line_search: LineSearch | None,
  server_decay: learning_rate_decay.LearningRateDecay | None,
) -> LearningProcess:
  """Composes a process whose rounds several workers can share."""
  client_work = parts.work.build()
  aggregation = _build_aggregation(
    client_work, parts.factory, updates_checked=True
  )
  process = tff.learning.templates.compose_learning_process(
    parts.work.info.initial_weights,
    parts.distributor,
    client_work,
    aggregation,
    parts.finalizer,
  )
  if line_search is None:
    return phased_rounds.with_phases(process, parts, aggregation)
  return line_search_lib.with_line_search(
    process,
    parts,
    line_search,
    client_work=client_work,
    aggregation=aggregation,
    learning_rate=finalizers.build_learning_rate(parts.finalizer, server_decay),
  )


@keras_state.preserve()
def compose_client_work(
  model_fn: ModelFn,
  client_work: tff.learning.templates.ClientWorkProcess,
  factory: summing.RuleFactory,
  *,
  server_optimizer: Optimizer | None = None,
) -> LearningProcess:
  """Composes a learning process from your own client work.

      work = tff_fair.client_works.build_from_computation(train)
      term = tff_fair.aggregators.TermFactory(t=2.0)
      process = tff_fair.rounds.compose_client_work(model_fn, work, term)

  Args:
    model_fn: Gives the initial weights; see `compose`.
    client_work: Maps the weights W and a client's data to a
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
  info = local_model.describe_trainable(model_fn)
  return tff.learning.templates.compose_learning_process(
    info.initial_weights,
    tff.learning.templates.build_broadcast_process(info.weights_type),
    client_work,
    _build_aggregation(client_work, factory),
    _optimizer_finalizer(server_optimizer)(info.weights_type, None),
  )


def _server_step(
  finalizer: Finalizer | None, server_optimizer: Optimizer | None
) -> Finalizer:
  """Returns the method's finalizer, or else that of a server optimizer.

  Raises `FieldError` if both are given.
  """
  if finalizer is None:
    return _optimizer_finalizer(server_optimizer)
  if server_optimizer is not None:
    raise declared.FieldError(
      "server_optimizer",
      "This method has a server step of its own, set by its hyperparameters: "
      "leave server_optimizer out.",
    )
  return finalizer


def _optimizer_finalizer(server_optimizer: Optimizer | None) -> Finalizer:
  """Returns a builder of the finalizer for a server optimizer."""
  return functools.partial(
    finalizers.build_apply_direction,
    optimizer_checks.server_optimizer_or_default(server_optimizer),
  )


def _build_aggregation(
  client_work: tff.learning.templates.ClientWorkProcess,
  factory: summing.RuleFactory,
  *,
  updates_checked: bool = False,
) -> tff.templates.AggregationProcess:
  """Builds the process that aggregates the results of the client work."""
  result_type: Any = client_work.next.type_signature.result.result.member
  return factory.create_for_rounds(
    result_type.update,
    result_type.update_weight,
    updates_checked=updates_checked,
  )


def _build_distributor(
  work: client_works.MethodWork,
) -> tff.learning.templates.DistributionProcess:
  """Builds the distributor; it sends initial weights if a signal needs them."""
  weights_type = work.info.weights_type
  if "initial_loss" in work.signals:
    return build_with_initial_weights(weights_type)
  return tff.learning.templates.build_broadcast_process(weights_type)


def _num_controlled(
  local_correction: str, num_participants: int | None, num_clients: int | None
) -> int | None:
  """Returns how many clients have control variates; None without SCAFFOLD.

  Raises `FieldError` if an option is invalid, or if the number is needed but
  not given.
  """
  declared.check_choice(
    "local_correction", local_correction, typing.get_args(LocalCorrection)
  )
  if num_participants is not None:
    declared.check_integer("num_participants", num_participants, minimum=1)
  if local_correction == "none":
    return None
  number = num_clients if num_participants is None else num_participants
  if number is None:
    raise declared.FieldError(
      "num_clients",
      "SCAFFOLD's server control is a mean over all clients: say how many "
      "there are, for example num_clients=100.",
    )
  return number


def _groups(
  shares: Sequence[float] | None, learning_rate: float | None
) -> group_weights.GroupWeights | None:
  """Returns the settings of the groups' weights; None if no option is given.

  Raises `FieldError` if only one of the two options is given.
  """
  if shares is None and learning_rate is None:
    return None
  if shares is None or learning_rate is None:
    raise declared.FieldError(
      "group_shares",
      "goes with fedminmax, which weighs examples by groups of people: give it "
      "the number of examples of each group, such as group_shares=(300, 700).",
    )
  return group_weights.GroupWeights(shares=shares, learning_rate=learning_rate)


def _check_groups(
  personal_lam: float | None, dp: privacy.DifferentialPrivacy | None
) -> None:
  """Raises `FieldError` if an option conflicts with weights by group."""
  for option, is_given, reason in (
    ("personal_lam", personal_lam is not None, "personal models have none"),
    ("dp", dp is not None, "the losses of groups get no noise"),
  ):
    if is_given:
      raise declared.FieldError(
        option,
        f"Examples have weights by group here, and {reason}: leave it out.",
      )


def _check_client_state(
  factory: summing.RuleFactory, dp: privacy.DifferentialPrivacy | None
) -> None:
  """Raises `FieldError` if sums are secure or private.

  Called if clients keep state, which would reveal what these sums hide.
  """
  for option, is_given in (
    ("aggregation", factory.aggregation == summing.SECURE),
    ("dp", dp is not None),
  ):
    if is_given:
      raise declared.FieldError(
        option,
        "Clients keep personal models, momentum or control variates here. The "
        "server gets them in the clear, one client at a time: leave "
        f"{option} out, or let clients keep nothing.",
      )


def _check_learning_rate(
  rule: types.Rule, work: client_works.MethodWork
) -> None:
  """Raises `FieldError` if a learning rate is needed but does not exist."""
  decays = work.settings.learning_rate_decay is not None
  is_needed = decays or "learning_rate" in rule.signals
  if is_needed and optimizer_checks.learning_rate(work.optimizer) is None:
    raise declared.FieldError(
      "client_optimizer",
      "A client optimizer with the hyperparameter learning_rate is needed, for "
      "its decay or because the method uses it; this one has none.",
    )


def _check_line_search(
  server_optimizer: Optimizer | None,
  work: client_works.MethodWork,
  *,
  has_own_step: bool,
) -> None:
  """Raises `FieldError` if the server or the clients do not allow a search.

  A search tries steps of plain SGD from the weights that clients receive, so
  the server's step must be such a step, too.
  """
  if has_own_step or work.persistent_state:
    raise declared.FieldError(
      "line_search",
      "A line search goes with SGD at the server, and clients that keep "
      "nothing: leave it out, or finalizer, personal_lam, "
      "keeps_optimizer_state and local_correction.",
    )
  if server_optimizer and not optimizer_checks.is_plain_sgd(server_optimizer):
    raise declared.FieldError(
      "server_optimizer",
      "A line search tries steps of several lengths along one direction, as "
      "SGD without momentum takes them. Leave server_optimizer out, or take "
      "tff.learning.optimizers.build_sgdm(learning_rate).",
    )
  if work.settings.loss_at != "before":
    raise declared.FieldError(
      "loss_at",
      "A line search compares the losses after a step with those before "
      f"training, found loss_at={work.settings.loss_at!r}. Leave loss_at out.",
    )


def build_with_initial_weights(
  weights_type: tff.Type,
) -> tff.learning.templates.DistributionProcess:
  """Builds a distributor that remembers the weights of its first round.

  Clients keep no state between rounds. Since they get theta^0 with theta, they
  can compare their loss with the initial one, and the server needs no list of
  all clients. The type of `next` is (<S@SERVER, W@SERVER> -> <state=S@SERVER,
  result=<current=W, initial=W>@CLIENTS, measurements=<>>). S holds theta^0
  (zeros before the first round), and whether theta^0 is known.
  """

  @tff.tensorflow.computation
  def initial_state() -> Any:
    return collections.OrderedDict(
      known=tf.constant(0, tf.int32),
      weights=stacking.zeros(tff.types.type_to_tf_tensor_specs(weights_type)),
    )

  @tff.tensorflow.computation(initial_state.type_signature.result, weights_type)
  def remember(state: Any, weights: Any) -> Any:
    initial = tf.cond(
      state["known"] > 0, lambda: state["weights"], lambda: weights
    )
    return (
      collections.OrderedDict(known=tf.constant(1, tf.int32), weights=initial),
      collections.OrderedDict(current=weights, initial=initial),
    )

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    new_state, sent = tff.federated_map(remember, (state, weights))
    return tff.templates.MeasuredProcessOutput(
      new_state,
      tff.federated_broadcast(sent),
      tff.federated_value((), tff.SERVER),
    )

  return tff.learning.templates.DistributionProcess(initialize, next_fn)
