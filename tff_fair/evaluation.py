"""Builds computations that evaluate one or more models on many clients.

The models are the global model, or each client's personal model.
"""

import collections
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, keras_state
from tff_fair.client_works import (
  batches,
  client_state,
  client_table,
  evaluation,
  local_model,
  output_ranges,
  score_sums,
)
from tff_fair.kernels import stacking
from tff_fair.runtime import mergeable_aggregate, phases

# Columns by name, [K, ...] for K clients and [...] for one client's row: the
# fields of `evaluation.Evaluation`, then the requested sums and ranges.
Rows: TypeAlias = collections.OrderedDict[str, tf.Tensor]


@keras_state.preserve()
def build_client_evaluation(
  model_fn: local_model.ModelFn,
  *,
  batch_size: int = evaluation.EVALUATION_BATCH_SIZE,
  sums: score_sums.SumsRequest | None = None,
  outputs: output_ranges.Outputs | None = None,
) -> tff.Computation:
  """Builds a computation that evaluates a model and returns a row per client.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    batch_size: The most examples in one forward pass. Larger elements of a
      client's data are sliced.
    sums: The sums over a client's examples to add to its row; None adds none.
      `tff_fair.metrics.class_scores` computes scores from them.
    outputs: The kind of the model's outputs, to add the ranges of predictions
      and labels to each row; None adds no ranges.

  Returns:
    A `tff.Computation` of type (<W@SERVER, {<int64, B>*}@CLIENTS> ->
    <client_id=int64[K], num_examples=int64[K], loss=float32[K],
    accuracy=float32[K]>@SERVER). It maps the model weights and the clients'
    data, as `tff_fair.client_dataset` returns it, to K rows in ascending order
    of client id. Losses are means over examples; accuracies are in [0, 1], or
    NaN if the model has none; both are in inference mode. A client without
    examples has no row. A column for each of `sums` follows, then one for each
    of the ranges of `outputs`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `batch_size` is below 1.
  """
  declared.check_integer("batch_size", batch_size, minimum=1)
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)

  @tff.tensorflow.computation(info.weights_type, data_type)
  def evaluate_client(weights: Any, data: tf.data.Dataset) -> Rows:
    return evaluation.evaluate_client(
      model_fn, batch_size, weights, data, sums, outputs
    )

  collect = _build_collect(evaluate_client.type_signature.result)

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def evaluate_clients(weights: tff.Value, data: tff.Value) -> tff.Value:
    return collect(
      tff.federated_map(
        evaluate_client, (tff.federated_broadcast(weights), data)
      )
    )

  return evaluate_clients


@keras_state.preserve()
def build_personal_evaluation(
  model_fn: local_model.ModelFn,
  *,
  batch_size: int = evaluation.EVALUATION_BATCH_SIZE,
  sums: score_sums.SumsRequest | None = None,
  outputs: output_ranges.Outputs | None = None,
) -> tff.Computation:
  """Builds a computation that evaluates each client's personal model.

  Args:
    model_fn: The `model_fn` with which the learning process was built.
    batch_size: The most examples in one forward pass.
    sums: As for `build_client_evaluation`.
    outputs: As for `build_client_evaluation`.

  Returns:
    A `tff.Computation` of type (<W@SERVER, P@SERVER, {<int64, B>*}@CLIENTS> ->
    rows@SERVER). P is the table of personal models, which a Ditto process has
    in its state as `state.client_work["personal"]`; W are the global weights,
    for clients without a personal model so far. The rows are as in
    `build_client_evaluation`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `batch_size` is below 1.
  """
  declared.check_integer("batch_size", batch_size, minimum=1)
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)
  table_type = client_state.personal_columns(info.weights_type).type

  @tff.tensorflow.computation(info.weights_type, table_type, data_type)
  def evaluate_client(
    weights: Any, table: client_table.Table, data: tf.data.Dataset
  ) -> Rows:
    personal = tff.learning.models.ModelWeights(
      client_table.value_or(table, batches.client_id(data), weights.trainable),
      weights.non_trainable,
    )
    return evaluation.evaluate_client(
      model_fn, batch_size, personal, data, sums, outputs
    )

  collect = _build_collect(evaluate_client.type_signature.result)

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(table_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def evaluate_with_rows(
    weights: tff.Value, own: tff.Value, data: tff.Value
  ) -> tff.Value:
    return collect(
      tff.federated_map(
        evaluate_client, (tff.federated_broadcast(weights), own, data)
      )
    )

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(table_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def evaluate_clients(
    weights: tff.Value, table: tff.Value, data: tff.Value
  ) -> tff.Value:
    return evaluate_with_rows(weights, tff.federated_broadcast(table), data)

  return phases.PhasedComputation.create(
    evaluate_clients, lambda: [evaluate_with_rows], conversions=_CONVERSIONS
  )


def _with_client_rows(args: Sequence[Any]) -> Sequence[Any]:
  """Returns `args` with the clients' own rows in place of the whole table."""
  weights, table, data = args
  ids = [batches.client_id_of(d) for d in data]
  return weights, client_table.rows_of(table, ids), data


_CONVERSIONS = phases.Conversions(
  _with_client_rows, phases.last_result, phases.never_retry
)


def _build_collect(row_type: tff.Type) -> tff.Computation:
  """Builds a computation that collects the clients' rows, sorted by id."""
  columns = tff.types.type_to_tf_tensor_specs(row_type)
  return mergeable_aggregate.build(
    row_type,
    zero=lambda: stacking.no_rows(columns),
    accumulate=append_row,
    merge=stacking.join_rows,
    report=sort_rows,
  )


def append_row(rows: Rows, row: Rows) -> Rows:
  """Appends one client's row to `rows` if the client has examples."""
  return stacking.join_rows(
    rows, stacking.rows_if(row["num_examples"] > 0, row)
  )


def sort_rows(rows: Rows) -> Rows:
  """Returns the rows in ascending order of client id."""
  order = tf.argsort(rows["client_id"], stable=True)
  return tf.nest.map_structure(lambda c: tf.gather(c, order), rows)
