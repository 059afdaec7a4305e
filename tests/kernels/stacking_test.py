"""Tests of stacks: rows go in one by one and come out as a matrix."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import stacking

WIDTH = 3
SPEC = tf.TensorSpec([WIDTH], tf.float32)


def row(i):
  return tf.constant([[i, i + 0.25, -i]], tf.float32)


def matrix(numbers):
  return np.reshape([row(i) for i in numbers], [-1, WIDTH])


def stack_of(numbers, stack=None):
  if stack is None:
    stack = stacking.empty_stack(SPEC)
  for i in numbers:
    stack = stacking.push(stack, row(i))
  return stack


@pytest.fixture(params=[(1, 1), (2, 1), (2, 2), (3, 2)], ids=str)
def small(request, monkeypatch):
  """Makes slots and pages so few that a test's rows fill them all."""
  monkeypatch.setattr(stacking, "_SIZES", {False: request.param})


@pytest.mark.usefixtures("small")
def test_rows_come_out_in_the_order_they_went_in():
  stack = stack_of([])
  for i in range(40):
    stack = stacking.push(stack, row(i))
    np.testing.assert_array_equal(stacking.rows(stack), matrix(range(i + 1)))


def test_rows_beyond_all_pages_in_a_graph():
  empty = stacking.empty_stack(SPEC)
  number = len(empty.slots) * (len(empty.pages) + 1) + 5
  specs = tf.nest.map_structure(
    lambda x: tf.TensorSpec(
      [None, WIDTH] if x.dtype.is_floating else x.shape, x.dtype
    ),
    empty,
  )
  push = tf.function(
    stacking.push,
    input_signature=[specs, tf.TensorSpec([None, WIDTH], tf.float32)],
  )
  stack = empty
  for i in range(number):
    stack = push(stack, row(i))
    rows = stacking.rows(stack)
    assert len(rows) == i + 1
    np.testing.assert_array_equal(rows[-1], row(i)[0])
  assert len(stack.rest) == number - 5
  np.testing.assert_array_equal(stacking.rows(stack), matrix(range(number)))


def test_a_row_is_copied_when_its_page_is_full():
  empty = stacking.empty_stack(SPEC)
  slots = len(empty.slots)
  stack = stack_of(range(slots - 1))
  assert [len(slot) for slot in stack.slots] == [1] * (slots - 1) + [0]
  assert not any(len(page) for page in stack.pages)
  stack = stacking.push(stack, row(slots - 1))
  assert [len(slot) for slot in stack.slots] == [0] * slots
  assert [len(page) for page in stack.pages] == [
    slots,
    *[0] * (len(empty.pages) - 1),
  ]
  assert len(stack.rest) == 0


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_cohorts_of_fifty_large_rows_are_not_copied(dtype):
  few, many = (
    len(stacking.empty_stack(tf.TensorSpec([length], dtype)).slots)
    for length in (2**18 - 1, 2**20)
  )
  assert few < many
  assert many > 50


@pytest.mark.usefixtures("small")
def test_nothing_can_be_pushed():
  stack = stack_of([])
  for i in range(20):
    stack = stacking.push(stack, row(i))
    stack = stacking.push(stack, tf.zeros([0, WIDTH]))
  np.testing.assert_array_equal(stacking.rows(stack), matrix(range(20)))
  blocks = stacking.blocks(stack)
  assert len(blocks) == len(stacking.blocks(stacking.empty_stack(SPEC)))
  np.testing.assert_array_equal(np.concatenate(blocks), matrix(range(20)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("first", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("second", [0, 1, 2, 8, 13])
def test_merged_stacks_hold_the_rows_of_both(first, second):
  merged = stacking.merge(
    stack_of(range(first)), stack_of(range(100, 100 + second))
  )
  numbers = [*range(first), *range(100, 100 + second)]
  rows = stacking.rows(merged).numpy()
  np.testing.assert_array_equal(rows[rows[:, 0].argsort()], matrix(numbers))
  # A merged stack takes further rows like any other.
  rows = stacking.rows(stack_of(range(200, 212), merged)).numpy()
  np.testing.assert_array_equal(
    rows[rows[:, 0].argsort()], matrix([*numbers, *range(200, 212)])
  )


@pytest.mark.parametrize(("first", "second"), [(1, 1), (7, 3), (9, 70)])
def test_rows_of_merged_stacks_stay_in_order(first, second):
  # Ids and signals are concatenated separately, and must still match the rows.
  merged = stacking.merge(
    stack_of(range(first)), stack_of(range(first, first + second))
  )
  np.testing.assert_array_equal(
    stacking.rows(merged), matrix(range(first + second))
  )


@pytest.mark.usefixtures("small")
def test_many_merges():
  stack = stack_of([])
  for i in range(0, 60, 3):
    stack = stacking.merge(stack, stack_of(range(i, i + 3)))
  rows = stacking.rows(stack).numpy()
  np.testing.assert_array_equal(rows[rows[:, 0].argsort()], matrix(range(60)))


def test_an_empty_stack_has_no_rows():
  rows = stacking.rows(stacking.empty_stack(tf.TensorSpec([WIDTH], tf.float64)))
  assert rows.shape == (0, WIDTH)
  assert rows.dtype == tf.float64


UPDATES = {
  "scalar": np.float32(1.5),
  "one tensor": np.arange(6, dtype=np.float32).reshape(2, 3),
  "tuple": (np.ones([2, 2], np.float32), np.float32(3)),
  "nested": collections.OrderedDict(
    z=np.arange(3, dtype=np.float32),
    a=(np.float32(7), {"y": np.ones([1, 2, 1], np.float32)}),
  ),
  "empty layer": (np.zeros([0, 3], np.float32), np.ones([2], np.float32)),
  # Values that a narrower type would not hold.
  "mixed dtypes": (
    np.array([0.5, -65504], np.float16),
    np.array([1 + 1e-15]),
    np.array([3e38], np.float32),
  ),
}


@pytest.mark.parametrize("case", UPDATES)
def test_update_as_a_row_and_back(case):
  update = UPDATES[case]
  specs = tf.nest.map_structure(
    lambda x: tf.TensorSpec(x.shape, x.dtype), update
  )
  row = stacking.flatten_update(tf.nest.map_structure(tf.constant, update))
  size = sum(np.size(x) for x in tf.nest.flatten(update))
  assert row.shape == (1, size)
  assert stacking.row_spec(specs) == tf.TensorSpec([size], row.dtype)
  back = stacking.unflatten_update(row[0], specs)
  tf.nest.assert_same_structure(back, update)
  for x, y in zip(tf.nest.flatten(back), tf.nest.flatten(update), strict=True):
    assert x.dtype == y.dtype
    np.testing.assert_array_equal(x, y)
