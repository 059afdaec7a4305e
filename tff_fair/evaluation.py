"""Evaluates a model on many clients, as one federated computation."""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair.client_works import (
  batches,
  evaluation,
  local_model,
  personal_table,
)
from tff_fair.kernels import stacking


def build_client_evaluation(
  model_fn: local_model.ModelFn,
  *,
  batch_size: int = evaluation.EVALUATION_BATCH_SIZE,
) -> tff.Computation:
  """Builds a computation that returns one row per client.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    batch_size: The most examples in one forward pass. Elements of a client's
      data that are larger are sliced.

  Returns:
    A `tff.Computation` of type (<W@SERVER, {<int64, B>*}@CLIENTS> ->
    <client_id=int64[K], num_examples=int64[K], loss=float32[K],
    accuracy=float32[K]>@SERVER): the model weights and the clients' data, as
    `tff_fair.client_dataset` returns it, to rows in ascending order of client
    id. Losses are means over examples, accuracies in [0, 1] or NaN where the
    model has none, both in inference mode. A client without examples has no
    row.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `batch_size` is below 1.
  """
  checks.check_integer("batch_size", batch_size, minimum=1)
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)

  @tff.tensorflow.computation(info.weights_type, data_type)
  def evaluate_client(weights: Any, data: Any) -> Any:
    return _evaluate(model_fn, batch_size, weights, data)

  rows = _Rows(evaluate_client.type_signature.result)

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def evaluate_clients(weights: Any, data: Any) -> Any:
    return rows.collect(
      tff.federated_map(
        evaluate_client, (tff.federated_broadcast(weights), data)
      )
    )

  return evaluate_clients


def build_personal_evaluation(
  model_fn: local_model.ModelFn,
  *,
  batch_size: int = evaluation.EVALUATION_BATCH_SIZE,
) -> tff.Computation:
  """Builds a computation that evaluates each client's personal model.

  Args:
    model_fn: As the process was built with.
    batch_size: The most examples in one forward pass.

  Returns:
    A `tff.Computation` of type (<W@SERVER, P@SERVER, {<int64, B>*}@CLIENTS> ->
    rows@SERVER). P is the table of personal models, which a Ditto process has
    in its state as `state.client_work["personal"]`; W are the global weights,
    for clients that have no personal model yet. Rows are as those of
    `build_client_evaluation`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `batch_size` is below 1.
  """
  checks.check_integer("batch_size", batch_size, minimum=1)
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)
  specs = tff.types.type_to_tf_tensor_specs(info.weights_type.trainable)
  table_type = tff.types.tensorflow_to_type(
    collections.OrderedDict(
      client_id=tf.TensorSpec([None], tf.int64),
      weights=tf.TensorSpec(
        [None, *stacking.row_spec(specs).shape], stacking.row_spec(specs).dtype
      ),
    )
  )
  look_up = personal_table.build_lookup(table_type)

  @tff.tensorflow.computation(data_type)
  def client_id_of(data: Any) -> Any:
    return batches.client_id(data)

  @tff.tensorflow.computation(
    info.weights_type, look_up.type_signature.result.member, data_type
  )
  def evaluate_client(weights: Any, found: Any, data: Any) -> Any:
    row = found["row"].get_single_element()
    trainable = tf.cond(
      found["known"],
      lambda: stacking.unflatten_update(row, specs),
      lambda: weights.trainable,
    )
    personal = tff.learning.models.ModelWeights(
      trainable, weights.non_trainable
    )
    return _evaluate(model_fn, batch_size, personal, data)

  rows = _Rows(evaluate_client.type_signature.result)

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(table_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def evaluate_clients(weights: Any, table: Any, data: Any) -> Any:
    found = look_up(table, tff.federated_map(client_id_of, data))
    return rows.collect(
      tff.federated_map(
        evaluate_client, (tff.federated_broadcast(weights), found, data)
      )
    )

  return evaluate_clients


def _evaluate(
  model_fn: local_model.ModelFn, batch_size: int, weights: Any, data: Any
) -> evaluation.Evaluation:
  """Evaluates one client, inside a computation."""
  model = local_model.instantiate(model_fn)

  @tf.function
  def run(weights: Any, data: tf.data.Dataset) -> Any:
    model.receive(weights)
    trainable = local_model.flat(weights.trainable)
    return evaluation.evaluate(
      model, trainable, batches.ClientData(data), batch_size
    )

  return run(weights, data)


class _Rows:
  """Collects one row per client at the server."""

  def __init__(self, row_type: tff.Type) -> None:
    specs = tff.types.type_to_tf_tensor_specs(row_type)

    @tff.tensorflow.computation
    def no_rows() -> Any:
      return tf.nest.map_structure(stacking.no_rows, _columns(specs))

    rows_type = no_rows.type_signature.result

    @tff.tensorflow.computation(rows_type, row_type)
    def append(rows: Any, row: Any) -> Any:
      number = tf.cast(row.num_examples > 0, tf.int32)
      return tf.nest.map_structure(
        lambda column, value: tf.concat(
          [column, tf.repeat(value[tf.newaxis], number)], 0
        ),
        rows,
        _columns(row),
      )

    @tff.tensorflow.computation(rows_type, rows_type)
    def merge(first: Any, second: Any) -> Any:
      return tf.nest.map_structure(
        lambda x, y: tf.concat([x, y], 0), first, second
      )

    @tff.tensorflow.computation(rows_type)
    def sort(rows: Any) -> Any:
      order = tf.argsort(rows["client_id"], stable=True)
      return tf.nest.map_structure(lambda c: tf.gather(c, order), rows)

    self._computations = (no_rows, append, merge, sort)

  def collect(self, rows: Any) -> Any:
    """Returns the columns of the clients' rows, sorted by client id."""
    no_rows, append, merge, sort = self._computations
    return tff.federated_aggregate(rows, no_rows(), append, merge, sort)


def _columns(row: evaluation.Evaluation) -> collections.OrderedDict[str, Any]:
  return collections.OrderedDict(row._asdict())
