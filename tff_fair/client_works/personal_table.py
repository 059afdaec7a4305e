"""A table of personal models at the server, one row per client seen so far.

TFF's clients keep nothing between rounds. The table is part of the process
state; `tff.federated_select` sends each client its own row and no other.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import collecting
from tff_fair.kernels import stacking

# `client_id` and `weights`.
Table: TypeAlias = collections.OrderedDict[str, tf.Tensor]
# `known`, bool[], and `row`, a dataset of one tensor [d].
Found: TypeAlias = Mapping[str, Any]
# Ids, int64[n], and rows, float[n, d], of the clients that are collected.
Rows: TypeAlias = tuple[tf.Tensor, stacking.Stack]


def table_type(row_spec: tf.TensorSpec) -> tff.StructType:
  """Returns the type of a table.

  Args:
    row_spec: Of a model's trainable weights as a vector, [d].

  Returns:
    <client_id=int64[T], weights=float[T, d]>, `client_id` ascending.
  """
  return tff.types.tensorflow_to_type(
    collections.OrderedDict(
      client_id=tf.TensorSpec([None], tf.int64),
      weights=tf.TensorSpec([None, *row_spec.shape], row_spec.dtype),
    )
  )


def empty(row_spec: tf.TensorSpec) -> Table:
  """Returns the table of no client.

  Args:
    row_spec: As `table_type` takes it.
  """
  return collections.OrderedDict(
    client_id=stacking.no_rows(tf.TensorSpec([], tf.int64)),
    weights=stacking.no_rows(row_spec),
  )


def updated(
  table: Table, client_id: tf.Tensor, weights: Sequence[tf.Tensor]
) -> Table:
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


def build_lookup(row_spec: tf.TensorSpec) -> tff.Computation:
  """Builds the computation that sends each client its row of the table.

  Args:
    row_spec: As `table_type` takes it.

  Returns:
    A `tff.Computation` of type (<table@SERVER, int64@CLIENTS> -> <known=bool,
    row=float[d]*>@CLIENTS): from a client's id to whether it has a row, and a
    sequence of one row, zero for a client that has none.
  """
  type_of_table = table_type(row_spec)

  @tff.tensorflow.computation(type_of_table["client_id"], np.int64)
  def find(ids: tf.Tensor, client_id: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    matches = tf.equal(ids, client_id)
    place = tf.cond(
      tf.reduce_any(matches),
      lambda: tf.argmax(matches, output_type=tf.int32),
      lambda: tf.size(ids),
    )
    return place[tf.newaxis], place < tf.size(ids)

  @tff.tensorflow.computation(type_of_table)
  def count(table: Table) -> tf.Tensor:
    return tf.size(table["client_id"]) + 1

  @tff.tensorflow.computation(type_of_table, np.int32)
  def pick(table: Table, place: tf.Tensor) -> tf.Tensor:
    weights = table["weights"]
    return tf.cond(
      place < tf.shape(weights)[0],
      lambda: weights[place],
      lambda: tf.zeros([weights.shape[1]], weights.dtype),
    )

  @tff.federated_computation(
    tff.FederatedType(type_of_table, tff.SERVER),
    tff.FederatedType(np.int64, tff.CLIENTS),
  )
  def look_up(table: tff.Value, client_id: tff.Value) -> tff.Value:
    ids = tff.federated_broadcast(table["client_id"])
    place, known = tff.federated_map(find, (ids, client_id))
    row = tff.federated_select(
      place, tff.federated_map(count, table), table, pick
    )
    return tff.federated_zip(collections.OrderedDict(known=known, row=row))

  return look_up


def build_update(
  row_spec: tf.TensorSpec, trained_type: tff.Type
) -> tff.Computation:
  """Builds the computation that puts the clients' rows into the table.

  Args:
    row_spec: As `table_type` takes it.
    trained_type: The type of a client's result: its id, int64[n], and its row,
      float[n, d], with n of 1, or of 0 for a client that keeps its row.

  Returns:
    A `tff.Computation` of type (<table@SERVER, trained@CLIENTS> ->
    table@SERVER).
  """
  type_of_table = table_type(row_spec)
  collect = collecting.build_collect(
    trained_type,
    zero=lambda: no_rows(row_spec),
    accumulate=append,
    merge=merge,
  )
  rows_type = collect.type_signature.result.member

  @tff.tensorflow.computation(type_of_table, rows_type)
  def put_in(table: Table, rows: Rows) -> Table:
    return updated(table, rows[0], stacking.blocks(rows[1]))

  @tff.federated_computation(
    tff.FederatedType(type_of_table, tff.SERVER),
    tff.FederatedType(trained_type, tff.CLIENTS),
  )
  def update(table: tff.Value, trained: tff.Value) -> tff.Value:
    return tff.federated_map(put_in, (table, collect(trained)))

  return update


def no_rows(row_spec: tf.TensorSpec) -> Rows:
  """Returns the rows of no client."""
  no_ids = stacking.no_rows(tf.TensorSpec([], tf.int64))
  return no_ids, stacking.empty_stack(row_spec)


def append(rows: Rows, trained: tuple[tf.Tensor, tf.Tensor]) -> Rows:
  """Returns the rows, and after them those of one client, one or none."""
  ids, stack = rows
  client_id, row = trained
  stack = tf.cond(
    tf.size(client_id) > 0,
    lambda: stacking.push(stack, row),
    lambda: tf.nest.map_structure(tf.identity, stack),
  )
  return tf.concat([ids, client_id], 0), stack


def merge(first: Rows, second: Rows) -> Rows:
  """Returns the rows of `first`, then those of `second`."""
  return (
    tf.concat([first[0], second[0]], 0),
    stacking.merge(first[1], second[1]),
  )
