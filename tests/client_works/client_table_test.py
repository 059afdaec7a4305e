"""Tests of tables of clients' persistent state, against dictionaries."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import client_table
from tff_fair.kernels import stacking

WIDTH = 3
SPEC = tf.TensorSpec([WIDTH], tf.float32)
COLUMNS = client_table.Columns("weights", SPEC)
IDS = [2**62 + 1, 2**62, -5, 0, 7, 31, 12]


def table_of(rows):
  ids = sorted(rows)
  return {
    "client_id": np.array(ids, np.int64),
    "weights": np.reshape([rows[k] for k in ids], [-1, WIDTH]).astype("f"),
  }


def table_as_rows(table):
  ids, rows = table.values()
  return dict(zip(ids.tolist(), rows, strict=True))


def assert_same(table, rows):
  for name, column in table_of(rows).items():
    np.testing.assert_array_equal(table[name], column)
    assert table[name].dtype == column.dtype


@functools.cache
def computations():
  """Returns two computations: one makes an empty table, one updates a table."""
  empty = tff.tensorflow.computation(COLUMNS.empty)
  table_type = COLUMNS.type
  assert empty.type_signature.result == table_type
  updated = tff.tensorflow.computation(
    client_table.with_rows,
    (
      table_type,
      tff.TensorType(np.int64, [None]),
      [tff.TensorType(np.float32, [None, WIDTH])] * 2,
    ),
  )
  # The next round gets this table, so its type must stay the same.
  assert updated.type_signature.result == table_type
  return empty, updated


def test_rows_are_put_in_by_id():
  empty, updated = computations()
  rng = np.random.default_rng(0)
  table, expected = empty(), {}
  assert_same(table, expected)
  for _ in range(12):
    ids = rng.permutation(IDS)[: rng.integers(0, len(IDS))]
    rows = rng.normal(size=(len(ids), WIDTH)).astype(np.float32)
    before = table
    table = updated(table, ids, [rows[:2], rows[2:]])
    others = table_of(dict(zip(ids.tolist(), rows, strict=True)))
    assert_same(
      client_table.with_rows_from(before, others), table_as_rows(table)
    )
    expected.update(zip(ids.tolist(), rows, strict=True))
    assert_same(table, expected)


def test_no_rows_change_nothing():
  rows = {5: [1, 2, 3], -2: [4, 5, 6]}
  table = client_table.with_rows(
    table_of(rows),
    tf.zeros([0], tf.int64),
    [tf.zeros([0, WIDTH])],
  )
  assert_same({k: v.numpy() for k, v in table.items()}, rows)


def rows_of(*trained):
  """Collects the rows of clients: {id: row} for each, or {} if it has none."""
  rows = client_table.no_rows(SPEC)
  for client in trained:
    ids = tf.constant([*client], tf.int64)
    matrix = np.reshape([*client.values()], [-1, WIDTH]).astype("f")
    rows = client_table.append(rows, (ids, tf.constant(matrix)))
  return rows


def as_dictionary(rows):
  ids, stack = rows
  matrix = stacking.rows(stack).numpy()
  return [*zip(ids.numpy().tolist(), matrix.tolist(), strict=True)]


def test_rows_are_collected_with_their_ids():
  first = rows_of({5: [1, 2, 3]}, {}, {-2: [4, 5, 6]})
  second = rows_of({2**40: [7, 8, 9]})
  assert as_dictionary(rows_of({}, {})) == []
  assert as_dictionary(first) == [(5, [1, 2, 3]), (-2, [4, 5, 6])]
  merged = client_table.merge(first, second)
  assert as_dictionary(merged) == as_dictionary(first) + as_dictionary(second)


def test_the_clients_rows_go_into_the_table():
  update = client_table.build_update(COLUMNS)
  assert update.type_signature.result.member == COLUMNS.type
  row = np.array([[7, 8, 9]], np.float32)
  none = (np.zeros(0, np.int64), np.zeros([0, WIDTH], np.float32))
  clients = [(np.int64([7]), row), none, (np.int64([-5]), row + 1)]
  before = {5: [1, 2, 3], 7: [4, 5, 6]}
  after = update(table_of(before), clients)
  assert_same(after, {**before, 7: row[0], -5: row[0] + 1})


def test_each_client_has_what_it_keeps_or_something_new():
  rows = {k: [i, i + 0.5, -i] for i, k in enumerate(IDS[:-2], start=1)}
  new = (tf.fill([1, 2], 9.0), np.float32([8.0]))
  for table, known in ((table_of(rows), rows), (computations()[0](), {})):
    for client_id in IDS:
      first, second = client_table.value_or(table, client_id, new)
      expected = known.get(client_id, [9.0, 9.0, 8.0])
      np.testing.assert_array_equal(first, [expected[:2]])
      np.testing.assert_array_equal(second, expected[2:])


def test_a_client_gets_its_own_row_and_no_other():
  rng = np.random.default_rng(1)
  rows = {k: rng.normal(size=WIDTH).astype(np.float32) for k in IDS[:4]}
  table = table_of(rows)
  asked = [2**62, 7, -5, 2**62]
  found = client_table.rows_of(table, asked)
  assert len(found) == len(asked)
  for client_id, own in zip(asked, found, strict=True):
    known = {client_id: rows[client_id]} if client_id in rows else {}
    assert_same(own, known)
    assert np.shares_memory(own["weights"], table["weights"]) == bool(known)
  (own,) = client_table.rows_of(table_of({}), [7])
  assert_same(own, {})


@pytest.mark.parametrize(
  ("counts", "row", "kept"),
  [
    (True, [1.0, 2.0], True),
    (False, [1.0, 2.0], False),
    (True, [1.0, np.nan], False),
    (True, [np.inf, 2.0], False),
  ],
)
def test_a_row_is_kept_if_its_client_counts(counts, row, kept):
  ids, rows = client_table.row_to_keep(
    tf.constant(2**40, tf.int64), tf.constant(counts), tf.constant([row])
  )
  assert ids.dtype == tf.int64
  assert ids.numpy().tolist() == [2**40] * kept
  assert rows.numpy().tolist() == [row] * kept
