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
  local_model,
  local_training,
  personal_table,
  training_settings,
)
from tff_fair.client_works.training import build_training
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
  checks.check_number("lam", lam, minimum=0)
  training = build_training(model_fn, optimizer, settings)
  work_type: tff.FunctionType = training.next.type_signature
  row_spec = stacking.row_spec(_trainable_specs(work_type))
  look_up = personal_table.build_lookup(row_spec)
  train = _build_train(
    model_fn,
    optimizer,
    dataclasses.replace(settings, proximal_mu=lam),
    work_type,
    look_up.type_signature.result.member,
  )
  put_in = personal_table.build_update(row_spec, train.type_signature.result)

  @tff.tensorflow.computation
  def no_models() -> personal_table.Table:
    return personal_table.empty(row_spec)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return _state(
      training.initialize(), tff.federated_eval(no_models, tff.SERVER)
    )

  state_type = initialize.type_signature.result.member
  get_hparams, set_hparams = _build_hparams(training, state_type)
  return tff.learning.templates.ClientWorkProcess(
    initialize,
    _build_next(training, state_type, look_up, train, put_in),
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )


def _build_next(
  training: tff.learning.templates.ClientWorkProcess,
  state_type: tff.Type,
  look_up: tff.Computation,
  train: tff.Computation,
  put_in: tff.Computation,
) -> tff.Computation:
  """Builds a round: both trainings, and the table before and after them."""
  _, weights_type, data_type = training.next.type_signature.parameter

  @tff.federated_computation(
    tff.FederatedType(state_type, tff.SERVER), weights_type, data_type
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    output = training.next(state["training"], weights, data)
    signals = output.result.update_weight
    trained = tff.federated_map(
      train,
      (
        tff.federated_broadcast(state["training"]),
        weights,
        data,
        look_up(state["personal"], signals.client_id),
        signals,
      ),
    )
    return tff.templates.MeasuredProcessOutput(
      _state(output.state, put_in(state["personal"], trained)),
      output.result,
      output.measurements,
    )

  return next_fn


def _state(training: tff.Value, personal: tff.Value) -> tff.Value:
  """Returns the state of the process, from its two parts at the server."""
  return tff.federated_zip(
    collections.OrderedDict(training=training, personal=personal)
  )


def _trainable_specs(work_type: tff.FunctionType) -> types.TensorStructure:
  """Returns the specs of the weights that `build_training`'s clients train."""
  weights_type = work_type.parameter[1].member
  return tff.types.type_to_tf_tensor_specs(weights_type.trainable)


def _build_train(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  work_type: tff.FunctionType,
  found_type: tff.Type,
) -> tff.Computation:
  """Builds one client's training of its personal model.

  Args:
    model_fn: The model.
    optimizer: The client optimizer.
    settings: How to train; lam is `proximal_mu`.
    work_type: The type of the training of the global model.
    found_type: The type of a client's entry in the table.

  Returns:
    A `tff.Computation`: from state, weights and data, as the training of the
    global model takes them, from the client's row of the table, and from the
    signals of that training, to the result of `row_to_keep`.
  """
  state_type, weights_type, data_type = (p.member for p in work_type.parameter)
  signals_type = work_type.result.result.member.update_weight
  specs = _trainable_specs(work_type)

  @tff.tensorflow.computation(
    state_type, weights_type, data_type, found_type, signals_type
  )
  def train(
    state: local_training.RoundState,
    weights: tff.learning.models.ModelWeights,
    data: tf.data.Dataset,
    found: personal_table.Found,
    signals: types.ClientSignals,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    model = local_model.instantiate(model_fn)

    @tracing.graph_function
    def run(
      state: local_training.RoundState,
      weights: tff.learning.models.ModelWeights,
      data: tf.data.Dataset,
      found: personal_table.Found,
    ) -> tf.Tensor:
      model.receive(weights)
      theta = local_model.flat(weights.trainable)
      hparams = training_settings.decayed_hparams(
        settings, state["optimizer"], state["round_num"]
      )
      trained = local_training.train(
        model,
        settings,
        optimizer,
        {"optimizer": hparams, "round_num": state["round_num"]},
        theta,
        batches.ClientData(data),
        start=weights_to_start_from(found, theta, specs),
      )
      return stacking.flatten_update(trained.trainable)

    return row_to_keep(signals, run(state, weights, data, found))

  return train


def weights_to_start_from(
  found: personal_table.Found,
  theta: local_model.Trainable,
  specs: types.TensorStructure,
) -> local_model.Trainable:
  """Returns v before training: the client's own model, or else the global one.

  Args:
    found: The client's entry in the table: `known`, bool[], and `row`, a
      dataset of one tensor [d].
    theta: The trainable weights that the client received, a flat tuple.
    specs: Structure of `tf.TensorSpec` of the trainable weights.
  """
  row = found["row"].get_single_element()
  return tf.cond(
    found["known"],
    lambda: local_model.flat(stacking.unflatten_update(row, specs)),
    lambda: theta,
  )


def row_to_keep(
  signals: types.ClientSignals, row: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
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
  training: tff.learning.templates.ClientWorkProcess, state_type: tff.Type
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the computations that read and set the hyperparameters.

  Args:
    training: The training of the global model, whose state has them.
    state_type: The type of the state of both.
  """

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: _State) -> Hparams:
    return training.get_hparams(state["training"])

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: _State, hparams: Hparams) -> _State:
    return collections.OrderedDict(
      training=training.set_hparams(state["training"], hparams),
      personal=state["personal"],
    )

  return get_hparams, set_hparams
