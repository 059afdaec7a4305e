"""Keeps the clients' state in tables at the server, with one row per client.

TFF's clients keep nothing between rounds, so these tables are part of the
process state. Real clients would keep their rows themselves; this simulation
broadcasts a table, of which each client reads only its own row. If a cohort is
cut into parts, each part's computation gets only the rows of its clients. A
client has no row before its first round. A table has T rows of d numbers.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.kernels import norms, stacking
from tff_fair.runtime import mergeable_aggregate

_Value = TypeVar("_Value")
# The two columns by name: `client_id`, int64[T], and the rows, float[T, d].
Table: TypeAlias = collections.OrderedDict[str, tf.Tensor]
# A client's id, int64[n], and its new row, float[n, d]; n is 1, or 0 if the
# client keeps its old row.
NewRow: TypeAlias = tuple[tf.Tensor, tf.Tensor]
# The ids, int64[n], and new rows, float[n, d], collected from n clients.
Rows: TypeAlias = tuple[tf.Tensor, stacking.Stack]


class Columns(NamedTuple):
  """The columns of a table: `client_id`, and the rows' column, called `name`.

  `row` is the spec of one row, float[d].
  """

  name: str
  row: tf.TensorSpec

  @property
  def type(self) -> tff.StructType:
    """The table's type <client_id=int64[T], NAME=float[T, d]>; ids ascend."""
    return tff.types.tensorflow_to_type(
      collections.OrderedDict(
        [
          ("client_id", tf.TensorSpec([None], tf.int64)),
          (self.name, tf.TensorSpec([None, *self.row.shape], self.row.dtype)),
        ]
      )
    )

  def empty(self) -> Table:
    """Returns a table without rows."""
    specs = [("client_id", stacking.CLIENT_ID_SPEC), (self.name, self.row)]
    return stacking.no_rows(collections.OrderedDict(specs))


def with_rows(
  table: Table, client_id: tf.Tensor, rows: Sequence[tf.Tensor]
) -> Table:
  """Replaces or adds the rows of m clients in a table.

  `client_id` is int64[m]. `rows` has the m new rows in blocks, float[m_i, d].
  """
  (id_name, known_ids), (rows_name, known_rows) = table.items()
  others = stacking.are_missing(known_ids, client_id)
  ids = tf.concat([tf.boolean_mask(known_ids, others), client_id], 0)
  all_rows = tf.concat([tf.boolean_mask(known_rows, others), *rows], 0)
  order = tf.argsort(ids, stable=True)
  return collections.OrderedDict(
    [
      (id_name, tf.gather(ids, order)),
      (rows_name, tf.gather(all_rows, order)),
    ]
  )


def value_or(table: Table, client_id: tf.Tensor, new: _Value) -> _Value:
  """Returns the value in a client's row, or `new` if the client has no row."""
  ids, rows = table.values()
  matches = tf.equal(ids, client_id)
  new = tf.nest.map_structure(tf.convert_to_tensor, new)
  specs = stacking.specs_of(new)
  return tf.cond(
    tf.reduce_any(matches),
    lambda: stacking.unflatten_update(rows[tf.argmax(matches)], specs),
    lambda: new,
  )


def row_to_keep(
  client_id: tf.Tensor, counts: tf.Tensor, row: tf.Tensor
) -> NewRow:
  """Returns a client's new row, or no row if the client keeps its old row.

  An excluded client (`counts` is false) keeps its old row, and so does a client
  whose new row is not finite.
  """
  is_kept = counts & norms.all_finite(row)
  return stacking.rows_if(is_kept, (client_id, row[0]))


def rows_of(table: Table, client_ids: Sequence[int]) -> list[Table]:
  """Returns one table for each client, with the client's row or no rows."""
  columns = {name: np.asarray(column) for name, column in table.items()}
  ids = columns["client_id"]
  starts = np.searchsorted(ids, client_ids)
  stops = np.searchsorted(ids, client_ids, side="right")
  return [
    collections.OrderedDict(
      (name, column[start:stop]) for name, column in columns.items()
    )
    for start, stop in zip(starts, stops, strict=True)
  ]


def with_rows_from(table: Table, others: Table) -> Table:
  """Returns a copy of `table`, with the rows of `others` replaced or added."""
  id_name, rows_name = table
  known, rows, new, new_rows = (
    np.asarray(column) for t in (table, others) for column in t.values()
  )
  ids = np.union1d(known, new)
  if len(ids) == len(known):
    all_rows = np.array(rows)
  else:
    all_rows = np.empty([len(ids), *rows.shape[1:]], rows.dtype)
    all_rows[np.searchsorted(ids, known)] = rows
  all_rows[np.searchsorted(ids, new)] = new_rows
  return collections.OrderedDict([(id_name, ids), (rows_name, all_rows)])


def build_update(columns: Columns) -> tff.Computation:
  """Builds the computation that puts the clients' new rows into the table.

  Its type is (<table@SERVER, kept@CLIENTS> -> table@SERVER); `kept` is a
  `NewRow`.
  """
  row = columns.row
  kept_type = tff.types.tensorflow_to_type(
    (
      tf.TensorSpec([None], tf.int64),
      tf.TensorSpec([None, *row.shape], row.dtype),
    )
  )
  collect = mergeable_aggregate.build(
    kept_type, zero=lambda: no_rows(row), accumulate=append, merge=merge
  )
  rows_type = collect.type_signature.result.member

  @tff.tensorflow.computation(columns.type, rows_type)
  def insert_rows(table: Table, rows: Rows) -> Table:
    return with_rows(table, rows[0], stacking.blocks(rows[1]))

  @tff.federated_computation(
    tff.FederatedType(columns.type, tff.SERVER),
    tff.FederatedType(kept_type, tff.CLIENTS),
  )
  def update(table: tff.Value, kept: tff.Value) -> tff.Value:
    return tff.federated_map(insert_rows, (table, collect(kept)))

  return update


def no_rows(row_spec: tf.TensorSpec) -> Rows:
  """Returns `Rows` without clients."""
  return stacking.no_rows(stacking.CLIENT_ID_SPEC), stacking.empty_stack(
    row_spec
  )


def append(rows: Rows, kept: NewRow) -> Rows:
  """Returns `rows`, followed by one client's new row if there is one."""
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
