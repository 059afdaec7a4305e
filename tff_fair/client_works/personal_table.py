"""A table of personal models at the server, one row per client seen so far.

TFF's clients keep nothing between rounds. The table is part of the process
state; `tff.federated_select` sends each client its own row and no other.
"""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.kernels import stacking


def empty(row_spec: tf.TensorSpec) -> collections.OrderedDict[str, Any]:
  """Returns the table of no client.

  Args:
    row_spec: Of a model's trainable weights as a vector, [d].

  Returns:
    `client_id`, int64[T], ascending, and `weights`, [T, d].
  """
  return collections.OrderedDict(
    client_id=stacking.no_rows(tf.TensorSpec([], tf.int64)),
    weights=stacking.no_rows(row_spec),
  )


def updated(
  table: Any, client_id: tf.Tensor, weights: Sequence[tf.Tensor]
) -> Any:
  """Returns the table with the rows of some clients put in.

  Args:
    table: The table.
    client_id: int64[m].
    weights: Their rows in blocks, [m_i, d].
  """
  others = tf.reduce_all(
    tf.not_equal(table["client_id"][:, tf.newaxis], client_id[tf.newaxis, :]),
    axis=1,
  )
  ids = tf.concat([tf.boolean_mask(table["client_id"], others), client_id], 0)
  rows = tf.concat([tf.boolean_mask(table["weights"], others), *weights], 0)
  order = tf.argsort(ids, stable=True)
  return collections.OrderedDict(
    client_id=tf.gather(ids, order), weights=tf.gather(rows, order)
  )


def build_lookup(table_type: tff.Type) -> tff.Computation:
  """Builds what sends each client its row of the table.

  Args:
    table_type: The type of the table.

  Returns:
    A `tff.Computation` of type (<table@SERVER, int64@CLIENTS> -> <known=bool,
    row=float[d]*>@CLIENTS): from a client's id to whether it has a row, and a
    sequence of one row, zero for a client that has none.
  """
  ids_type = table_type["client_id"]

  @tff.tensorflow.computation(ids_type, np.int64)
  def find(ids: Any, client_id: Any) -> Any:
    matches = tf.equal(ids, client_id)
    place = tf.cond(
      tf.reduce_any(matches),
      lambda: tf.argmax(matches, output_type=tf.int32),
      lambda: tf.size(ids),
    )
    return place[tf.newaxis], place < tf.size(ids)

  @tff.tensorflow.computation(table_type)
  def count(table: Any) -> Any:
    return tf.size(table["client_id"]) + 1

  @tff.tensorflow.computation(table_type, np.int32)
  def pick(table: Any, place: Any) -> Any:
    weights = table["weights"]
    return tf.cond(
      place < tf.shape(weights)[0],
      lambda: weights[place],
      lambda: tf.zeros([weights.shape[1]], weights.dtype),
    )

  @tff.federated_computation(
    tff.FederatedType(table_type, tff.SERVER),
    tff.FederatedType(np.int64, tff.CLIENTS),
  )
  def look_up(table: Any, client_id: Any) -> Any:
    ids = tff.federated_broadcast(table["client_id"])
    place, known = tff.federated_map(find, (ids, client_id))
    row = tff.federated_select(
      place, tff.federated_map(count, table), table, pick
    )
    return tff.federated_zip(collections.OrderedDict(known=known, row=row))

  return look_up
