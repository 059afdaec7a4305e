"""Client work in which clients keep something from one round to the next."""

import collections
from collections.abc import Collection

import tensorflow_federated as tff

from tff_fair.client_works import (
  keeping,
  keeping_state,
  local_model,
  model_info,
  training,
  training_settings,
  training_state,
)


def build_keeping_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  kept: keeping.Keeping,
  *,
  signals: Collection[str] = (),
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work in which clients keep something.

  Args:
    model_fn: As `build_training` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train.
    kept: What clients keep.
    signals: The signals that the rule asks for.

  Returns:
    A process as `build_training`'s, but for its state: <training=S,
    NAME=<client_id=int64[T], ...=float[T, d]>, ...>@SERVER. The rows of the
    tables are those of the clients that have counted so far.
  """
  at_server = training_state.build_state(optimizer)
  round_of_own = build_keeping_round(
    model_fn, optimizer, settings, kept, signals=signals
  )
  state_type, *others, _ = round_of_own.type_signature.parameter
  tables = kept.tables(model_info.describe(model_fn).weights_type, optimizer)
  initial_state = keeping_state.build_initial(at_server, tables)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(state_type, *others)
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    own = collections.OrderedDict((name, state[name]) for name in tables)
    sent = tff.federated_broadcast(tff.federated_zip(own))
    return round_of_own(state, weights, data, sent)

  get_hparams, set_hparams = keeping_state.build_hparams(at_server, tables)
  return tff.learning.templates.ClientWorkProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )


def build_personal_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  lam: float,
  signals: Collection[str] = (),
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work that trains the global and a personal model.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, of both trainings.
    settings: How clients train both models. The proximal term and the objective
      are the global model's; the personal one has `lam` in their place.
    lam: Pull of the personal model towards the global one, 0 or more.
    signals: The signals that the rule asks for.

  Returns:
    A process as `build_training`'s, but for its state: <training=S,
    personal=<client_id=int64[T], weights=float[T, d]>>@SERVER. The rows are the
    personal models of the clients that have counted so far.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `lam` is negative.
  """
  return build_keeping_training(
    model_fn,
    optimizer,
    settings,
    keeping.Keeping(personal_lam=lam),
    signals=signals,
  )


def build_keeping_round(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  kept: keeping.Keeping,
  *,
  signals: Collection[str] = (),
) -> tff.Computation:
  """Builds a round of client work in which each client has its own rows.

  Args:
    model_fn: As `build_keeping_training` takes it, and so are those that
      follow.
    optimizer: The client optimizer.
    settings: How clients train.
    kept: What clients keep.
    signals: The signals that the rule asks for.

  Returns:
    A computation as the `next` of `build_keeping_training`, with one argument
    more, at clients: the tables, which have a client's rows, if it has some.
    What the clients keep is put into the tables of the state, which need not
    have any other rows.
  """
  info = model_info.describe(model_fn)
  tables = kept.tables(info.weights_type, optimizer)
  work = training.build_client_computation(
    kept.run,
    model_fn,
    optimizer,
    settings,
    signals,
    keeping_state.type_of_own(tables),
  )
  state_type, *of_clients = work.type_signature.parameter
  end_round = keeping_state.build_end_of_round(info, optimizer, tables, work)

  @tff.federated_computation(
    tff.FederatedType(
      keeping_state.type_of_state(state_type, tables), tff.SERVER
    ),
    *(tff.FederatedType(t, tff.CLIENTS) for t in of_clients),
  )
  def round_of_own(
    state: tff.Value, weights: tff.Value, data: tff.Value, own: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    sent = tff.federated_broadcast(state[keeping_state.TRAINING])
    return end_round(state, tff.federated_map(work, (sent, weights, data, own)))

  return round_of_own
