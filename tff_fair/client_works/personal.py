"""Ditto's client work: a personal model beside the global one.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021), Algorithm 1.

  v <- v - eta (grad f_k(v) + lam (v - theta))

for as many local steps as the global model takes. v starts from the model that
the client received first, and the server keeps it across rounds.
"""

import collections
import dataclasses
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks, tracing, types
from tff_fair.client_works import (
  batches,
  client_round,
  local_model,
  local_training,
  personal_table,
  training,
  training_settings,
)
from tff_fair.kernels import finiteness, stacking
from tff_fair.learning_rate_decay import Hparams

# `training`, the state of the global model's training, and `personal`, the
# table of personal models.
_State: TypeAlias = collections.OrderedDict[str, Any]


def build_personal_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  lam: float,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work that trains the global and a personal model.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, of both trainings.
    settings: How clients train both models. The proximal term is the global
      model's; the personal one has `lam` in its place.
    lam: Pull of the personal model towards the global one, 0 or more.

  Returns:
    A process as `build_training`'s, but for its state: <training=S,
    personal=<client_id=int64[T], weights=float[T, d]>>@SERVER. The rows are the
    personal models of the clients that have counted so far.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `lam` is negative.
  """
  at_server = training.build_state(optimizer)
  row_spec = _row_spec(local_model.describe(model_fn))
  round_of_own = build_personal_round(model_fn, optimizer, settings, lam=lam)

  @tff.tensorflow.computation
  def no_models() -> personal_table.Table:
    return personal_table.empty(row_spec)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return _state(
      tff.federated_eval(at_server.initial, tff.SERVER),
      tff.federated_eval(no_models, tff.SERVER),
    )

  @tff.federated_computation(*round_of_own.type_signature.parameter[:-1])
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    table = tff.federated_broadcast(state["personal"])
    return round_of_own(state, weights, data, table)

  get_hparams, set_hparams = _build_hparams(
    at_server, initialize.type_signature.result.member
  )
  return tff.learning.templates.ClientWorkProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )


def build_personal_round(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  lam: float,
) -> tff.Computation:
  """Builds a round of client work in which each client has its own model.

  Args:
    model_fn: As `build_personal_training` takes it, and so are those that
      follow.
    optimizer: The client optimizer.
    settings: How clients train both models.
    lam: Pull of the personal model towards the global one.

  Returns:
    A computation as the `next` of `build_personal_training`, with one argument
    more, at clients: a table that has a client's personal model, if it has one.
    The clients' new models are put into the table of the state, which it need
    not have any other rows of.
  """
  checks.check_number("lam", lam, minimum=0, in_float32=True)
  at_server = training.build_state(optimizer)
  info = local_model.describe(model_fn)
  row_spec = _row_spec(info)
  table_type = personal_table.table_type(row_spec)
  work = _build_work(
    model_fn,
    info,
    optimizer,
    settings,
    dataclasses.replace(settings, proximal_mu=lam),
    at_server.type,
    table_type,
  )
  _, weights_type, data_type, _ = work.type_signature.parameter
  _, tally_type, kept_type = work.type_signature.result
  end_round = training.build_end_of_round(info, at_server, tally_type)
  put_in = personal_table.build_update(row_spec, kept_type)
  state_type = collections.OrderedDict(
    training=at_server.type, personal=table_type
  )

  @tff.federated_computation(
    tff.FederatedType(state_type, tff.SERVER),
    tff.FederatedType(weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
    tff.FederatedType(table_type, tff.CLIENTS),
  )
  def round_of_own(
    state: tff.Value, weights: tff.Value, data: tff.Value, own: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result, tally, kept = tff.federated_map(
      work, (tff.federated_broadcast(state["training"]), weights, data, own)
    )
    new_state, measurements = end_round(state["training"], tally)
    return tff.templates.MeasuredProcessOutput(
      _state(new_state, put_in(state["personal"], kept)), result, measurements
    )

  return round_of_own


def _row_spec(info: local_model.ModelInfo) -> tf.TensorSpec:
  """Returns the spec of the trainable weights as a vector."""
  return stacking.row_spec(
    tff.types.type_to_tf_tensor_specs(info.weights_type.trainable)
  )


def _state(trained: tff.Value, personal: tff.Value) -> tff.Value:
  """Returns the state of the process, from its two parts at the server."""
  return tff.federated_zip(
    collections.OrderedDict(training=trained, personal=personal)
  )


def _build_work(
  model_fn: local_model.ModelFn,
  info: local_model.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  personal_settings: training_settings.TrainingSettings,
  state_type: tff.Type,
  table_type: tff.Type,
) -> tff.Computation:
  """Builds one client's round.

  Both trainings are one computation, so that a client reads its data once.

  Args:
    model_fn: The model.
    info: The facts about it.
    optimizer: The client optimizer.
    settings: How to train the global model.
    personal_settings: How to train the personal one; lam is `proximal_mu`.
    state_type: The type of the training's state at the server.
    table_type: The type of the table of personal models.

  Returns:
    A `tff.Computation`: from state, weights, data and table to the result and
    the tally of `client_round`, and to the result of `row_to_keep`.
  """
  specs = tff.types.type_to_tf_tensor_specs(info.weights_type.trainable)

  @tff.tensorflow.computation(
    state_type,
    info.weights_type,
    batches.data_type(info.batch_spec),
    table_type,
  )
  def work(
    state: local_training.RoundState,
    weights: tff.learning.models.ModelWeights,
    data: tf.data.Dataset,
    table: personal_table.Table,
  ) -> tuple[Any, Any, personal_table.Kept]:
    model = local_model.instantiate(model_fn)

    @tracing.graph_function
    def run(
      state: local_training.RoundState,
      weights: tff.learning.models.ModelWeights,
      data: tf.data.Dataset,
      table: personal_table.Table,
    ) -> tuple[Any, Any, personal_table.Kept]:
      examples = batches.ClientData(data)
      client = client_round.ClientRound(
        model, optimizer, settings, signals=(), data=examples
      )
      result, tally = client.run(state, weights)
      signals = result.update_weight
      model.receive(weights)
      theta = local_model.flat(weights.trainable)
      hparams = training_settings.decayed_hparams(
        settings, state["optimizer"], state["round_num"]
      )
      trained = local_training.train_weights(
        model,
        personal_settings,
        optimizer,
        {"optimizer": hparams, "round_num": state["round_num"]},
        theta,
        examples,
        start=weights_to_start_from(table, signals.client_id, theta, specs),
      )
      row = stacking.flatten_update(trained)
      return result, tally, row_to_keep(signals, row)

    return run(state, weights, data, table)

  return work


def weights_to_start_from(
  table: personal_table.Table,
  client_id: tf.Tensor,
  theta: local_model.Trainable,
  specs: types.TensorStructure,
) -> local_model.Trainable:
  """Returns v before training: the client's own model, or else the global one.

  Args:
    table: The table of personal models.
    client_id: int64[], the client's.
    theta: The trainable weights that the client received, a flat tuple.
    specs: Structure of `tf.TensorSpec` of the trainable weights.
  """
  known, row = personal_table.find(table, client_id)
  return tf.cond(
    known,
    lambda: local_model.flat(stacking.unflatten_update(row(), specs)),
    lambda: theta,
  )


def row_to_keep(
  signals: types.ClientSignals, row: tf.Tensor
) -> personal_table.Kept:
  """Returns the row that goes into the table, if any does.

  A client that does not count, or whose model is not finite, keeps the personal
  model it has.

  Args:
    signals: Those of the client.
    row: float[1, d], v after training.

  Returns:
    The client's id, int64[n], and its row, float[n, d]; n is 1 or 0.
  """
  counts = (signals.num_examples > 0) & finiteness.all_finite(row)
  number = tf.cast(counts, tf.int32)
  return (
    tf.repeat(signals.client_id[tf.newaxis], number),
    tf.repeat(row, number, axis=0),
  )


def _build_hparams(
  at_server: training.StateComputations, state_type: tff.Type
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the computations that read and set the hyperparameters.

  Args:
    at_server: The computations on the training's state, which has them.
    state_type: The type of the state of both.
  """

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: _State) -> Hparams:
    return at_server.get_hparams(state["training"])

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: _State, hparams: Hparams) -> _State:
    return collections.OrderedDict(
      training=at_server.set_hparams(state["training"], hparams),
      personal=state["personal"],
    )

  return get_hparams, set_hparams
