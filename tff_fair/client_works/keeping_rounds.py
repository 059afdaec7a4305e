"""Client work in which clients keep something from one round to the next."""

import collections
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import tensorflow_federated as tff

from tff_fair.client_works import (
  client_table,
  keeping,
  local_model,
  training,
  training_phases,
  training_settings,
)
from tff_fair.learning_rate_decay import Hparams

_TRAINING = "training"
# `training`, the state of the training, and the tables by their names.
_State: TypeAlias = collections.OrderedDict[str, Any]


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
  at_server = training.build_state(optimizer)
  round_of_own = build_keeping_round(
    model_fn, optimizer, settings, kept, signals=signals
  )
  state_type, *others, _ = round_of_own.type_signature.parameter
  tables = kept.tables(local_model.describe(model_fn).weights_type, optimizer)

  @tff.tensorflow.computation
  def initial_state() -> _State:
    return collections.OrderedDict(
      [
        (_TRAINING, at_server.initial()),
        *((name, columns.empty()) for name, columns in tables.items()),
      ]
    )

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

  get_hparams, set_hparams = _build_hparams(at_server, state_type.member)
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
  info = local_model.describe(model_fn)
  tables = kept.tables(info.weights_type, optimizer)
  work = training.build_client_computation(
    kept.run, model_fn, optimizer, settings, signals, _own_type(tables)
  )
  state_type, received_type, data_type, own_type = work.type_signature.parameter
  end_round = _build_end_of_round(info, optimizer, tables, work)

  @tff.federated_computation(
    tff.FederatedType(_state_type(state_type, tables), tff.SERVER),
    tff.FederatedType(received_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
    tff.FederatedType(own_type, tff.CLIENTS),
  )
  def round_of_own(
    state: tff.Value, weights: tff.Value, data: tff.Value, own: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    sent = tff.federated_broadcast(state[_TRAINING])
    return end_round(state, tff.federated_map(work, (sent, weights, data, own)))

  return round_of_own


def build_keeping_phases(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  kept: keeping.Keeping,
  *,
  signals: Collection[str] = (),
) -> training_phases.TrainingPhases:
  """Builds the round of `build_keeping_round` in two phases.

  Args:
    model_fn: As `build_keeping_round` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train, with `loss_at="before"`.
    kept: What clients keep.
    signals: The signals that the rule asks for.

  Returns:
    Phases as `build_training_phases`'s, each of which takes one argument more,
    after the data: the tables.
  """
  info = local_model.describe(model_fn)
  tables = kept.tables(info.weights_type, optimizer)
  options = model_fn, optimizer, settings, signals
  measure = training_phases.build_measure(*options)
  work = training.build_client_computation(
    lambda client, state, received, cohort, own: kept.run(
      client, state, received, own, cohort
    ),
    *options,
    training_phases.cohort_type(),
    _own_type(tables),
  )
  state_type, *others, cohort_type, own_type = work.type_signature.parameter
  end_round = _build_end_of_round(info, optimizer, tables, work)
  parameters = (
    tff.FederatedType(_state_type(state_type, tables), tff.SERVER),
    *(tff.FederatedType(t, tff.CLIENTS) for t in (*others, own_type)),
  )

  @tff.federated_computation(*parameters)
  def measure_all(
    state: tff.Value, received: tff.Value, data: tff.Value, own: tff.Value
  ) -> tff.Value:
    del own  # Only training needs it.
    return measure(state[_TRAINING], received, data)

  @tff.federated_computation(
    *parameters, tff.FederatedType(cohort_type, tff.SERVER)
  )
  def train_all(
    state: tff.Value,
    received: tff.Value,
    data: tff.Value,
    own: tff.Value,
    cohort: tff.Value,
  ) -> tff.templates.MeasuredProcessOutput:
    sent = tff.federated_broadcast(state[_TRAINING])
    known = tff.federated_broadcast(cohort)
    return end_round(
      state, tff.federated_map(work, (sent, received, data, known, own))
    )

  return training_phases.TrainingPhases(measure_all, train_all)


def _build_end_of_round(
  info: local_model.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  tables: Mapping[str, client_table.Columns],
  work: tff.Computation,
) -> tff.Computation:
  """Builds what follows at the server: from state and results to the output.

  Args:
    info: The facts about the model.
    optimizer: The client optimizer.
    tables: The columns of the tables, by name.
    work: The computation of a client, which returns a `keeping.Result`.
  """
  at_server = training.build_state(optimizer)
  result_type = work.type_signature.result
  end_training = training.build_end_of_round(info, at_server, result_type[1])
  updates = {
    name: client_table.build_update(columns) for name, columns in tables.items()
  }

  @tff.federated_computation(
    tff.FederatedType(_state_type(at_server.type, tables), tff.SERVER),
    tff.FederatedType(result_type, tff.CLIENTS),
  )
  def end_round(
    state: tff.Value, results: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result, tally, kept = results
    trained, measurements = end_training(state[_TRAINING], tally)
    put_in = [
      (name, update(state[name], kept[name]))
      for name, update in updates.items()
    ]
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict([(_TRAINING, trained), *put_in])
      ),
      result,
      measurements,
    )

  return end_round


def _own_type(tables: Mapping[str, client_table.Columns]) -> tff.StructType:
  return tff.StructType([(n, columns.type) for n, columns in tables.items()])


def _state_type(
  training_type: tff.Type, tables: Mapping[str, client_table.Columns]
) -> tff.Type:
  return tff.to_type(
    collections.OrderedDict(
      [
        (_TRAINING, training_type),
        *((name, columns.type) for name, columns in tables.items()),
      ]
    )
  )


def _build_hparams(
  at_server: training.StateComputations, state_type: tff.Type
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the computations that read and set the hyperparameters.

  Args:
    at_server: The computations on the training's state, which has them.
    state_type: The type of the state with the tables.
  """

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: _State) -> Hparams:
    return at_server.get_hparams(state[_TRAINING])

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: _State, hparams: Hparams) -> _State:
    new = at_server.set_hparams(state[_TRAINING], hparams)
    return collections.OrderedDict([*state.items(), (_TRAINING, new)])

  return get_hparams, set_hparams
