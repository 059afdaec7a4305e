"""A table of personal models at the server, one row per client seen so far.

TFF's clients keep nothing between rounds, so the table is part of the process
state. Where clients would keep their own models, this simulation broadcasts
the table, and each client reads its own row and no other. Cohorts that several
calls share are sent the rows of their own clients alone.
"""

import collections
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import collecting
from tff_fair.kernels import stacking

# `client_id` and `weights`.
Table: TypeAlias = collections.OrderedDict[str, tf.Tensor]
# The id, int64[n], and the row, float[n, d], of a client; n is 1, or 0 for a
# client that keeps the row it has.
Kept: TypeAlias = tuple[tf.Tensor, tf.Tensor]
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


def find(
  table: Table, client_id: tf.Tensor
) -> tuple[tf.Tensor, Callable[[], tf.Tensor]]:
  """Finds a client's row.

  Args:
    table: The table.
    client_id: int64[].

  Returns:
    Whether it has one, bool[], and a function that returns the row, [d], which
    may be called where it has one.
  """
  matches = tf.equal(table["client_id"], client_id)
  return tf.reduce_any(matches), lambda: table["weights"][tf.argmax(matches)]


def rows_of(table: Table, client_ids: Sequence[int]) -> list[Table]:
  """Returns for each client the table of its row alone, or of none.

  Args:
    table: The table, of arrays. The rows share its memory.
    client_ids: The clients.
  """
  ids, weights = (np.asarray(table[name]) for name in ("client_id", "weights"))
  starts = np.searchsorted(ids, client_ids)
  stops = np.searchsorted(ids, client_ids, side="right")
  return [
    collections.OrderedDict(
      client_id=ids[start:stop], weights=weights[start:stop]
    )
    for start, stop in zip(starts, stops, strict=True)
  ]


def build_update(
  row_spec: tf.TensorSpec, kept_type: tff.Type
) -> tff.Computation:
  """Builds the computation that puts the clients' rows into the table.

  Args:
    row_spec: As `table_type` takes it.
    kept_type: The type of a client's `Kept`.

  Returns:
    A `tff.Computation` of type (<table@SERVER, kept@CLIENTS> -> table@SERVER).
  """
  type_of_table = table_type(row_spec)
  collect = collecting.build_collect(
    kept_type,
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
    tff.FederatedType(kept_type, tff.CLIENTS),
  )
  def update(table: tff.Value, kept: tff.Value) -> tff.Value:
    return tff.federated_map(put_in, (table, collect(kept)))

  return update


def no_rows(row_spec: tf.TensorSpec) -> Rows:
  """Returns the rows of no client."""
  no_ids = stacking.no_rows(tf.TensorSpec([], tf.int64))
  return no_ids, stacking.empty_stack(row_spec)


def append(rows: Rows, kept: Kept) -> Rows:
  """Returns the rows, and after them those of one client, one or none."""
  ids, stack = rows
  client_id, row = kept
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
