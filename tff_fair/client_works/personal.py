"""Ditto's client work: a personal model beside the global one.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021), Algorithm 1.

  v <- v - eta (grad f_k(v) + lam (v - theta))

for as many local steps as the global model takes; v starts from the model the
client received first and is kept across rounds.
"""

import collections
import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair.client_works import (
  batches,
  local_model,
  local_training,
  personal_table,
)
from tff_fair.client_works.training import build_training
from tff_fair.kernels import finiteness, stacking


def build_personal_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: local_training.TrainingSettings,
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
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)
  trainable_specs = tff.types.type_to_tf_tensor_specs(
    info.weights_type.trainable
  )
  row_spec = stacking.row_spec(trainable_specs)
  personal_settings = dataclasses.replace(settings, proximal_mu=lam)

  @tff.tensorflow.computation
  def no_models() -> Any:
    return personal_table.empty(row_spec)

  table_type = no_models.type_signature.result
  look_up = personal_table.build_lookup(table_type)
  found_type = look_up.type_signature.result.member
  training_type = training.initialize.type_signature.result.member
  signals_type: Any = (
    training.next.type_signature.result.result.member.update_weight
  )

  @tff.tensorflow.computation(
    training_type, info.weights_type, data_type, found_type, signals_type
  )
  def train(
    state: Any, weights: Any, data: Any, found: Any, signals: Any
  ) -> Any:
    model = local_model.instantiate(model_fn)

    @tf.function
    def run(
      state: Any, weights: Any, data: tf.data.Dataset, found: Any
    ) -> tf.Tensor:
      model.receive(weights)
      theta = local_model.flat(weights.trainable)
      row = found["row"].get_single_element()
      start = tf.cond(
        found["known"],
        lambda: local_model.flat(
          stacking.unflatten_update(row, trainable_specs)
        ),
        lambda: theta,
      )
      hparams = local_training.decayed_hparams(
        settings, state["optimizer"], state["round_num"]
      )
      trained = local_training.train(
        model,
        personal_settings,
        optimizer,
        {"optimizer": hparams, "round_num": state["round_num"]},
        theta,
        batches.ClientData(data),
        start=start,
      )
      return stacking.flatten_update(trained.trainable)

    row = run(state, weights, data, found)
    # A client that does not count, or whose model is not finite, keeps the
    # personal model it has.
    counts = (signals.num_examples > 0) & finiteness.all_finite(row)
    number = tf.cast(counts, tf.int32)
    return (
      tf.repeat(signals.client_id[tf.newaxis], number),
      tf.repeat(row, number, axis=0),
    )

  @tff.tensorflow.computation
  def no_rows() -> Any:
    no_ids = stacking.no_rows(tf.TensorSpec([], tf.int64))
    return no_ids, stacking.empty_stack(row_spec)

  rows_type = no_rows.type_signature.result

  @tff.tensorflow.computation(rows_type, train.type_signature.result)
  def collect(rows: Any, trained: Any) -> Any:
    ids, stack = rows
    client_id, row = trained
    stack = tf.cond(
      tf.size(client_id) > 0,
      lambda: stacking.push(stack, row),
      lambda: tf.nest.map_structure(tf.identity, stack),
    )
    return tf.concat([ids, client_id], 0), stack

  @tff.tensorflow.computation(rows_type, rows_type)
  def merge(first: Any, second: Any) -> Any:
    return tf.concat([first[0], second[0]], 0), stacking.merge(
      first[1], second[1]
    )

  @tff.tensorflow.computation(rows_type)
  def report(rows: Any) -> Any:
    return rows

  @tff.tensorflow.computation(table_type, rows_type)
  def put_in(table: Any, rows: Any) -> Any:
    return personal_table.updated(table, rows[0], stacking.blocks(rows[1]))

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        training=training.initialize(),
        personal=tff.federated_eval(no_models, tff.SERVER),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(info.weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state: Any, weights: Any, data: Any) -> Any:
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
    rows = tff.federated_aggregate(trained, no_rows(), collect, merge, report)
    personal = tff.federated_map(put_in, (state["personal"], rows))
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict(training=output.state, personal=personal)
      ),
      output.result,
      output.measurements,
    )

  state_type = initialize.type_signature.result.member

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: Any) -> Any:
    return training.get_hparams(state["training"])

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: Any, hparams: Any) -> Any:
    return collections.OrderedDict(
      training=training.set_hparams(state["training"], hparams),
      personal=state["personal"],
    )

  return tff.learning.templates.ClientWorkProcess(
    initialize, next_fn, get_hparams_fn=get_hparams, set_hparams_fn=set_hparams
  )
