"""Tests of collecting clients' values, as a whole and in parts."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.kernels import stacking
from tff_fair.runtime import mergeable_aggregate

ROW = tf.TensorSpec([2], tf.float32)
CLIENT = tff.TensorType(np.float32, [None, 2])


def no_rows():
  return stacking.no_rows(ROW), tf.constant(0)


def append(rows, client):
  return tf.concat([rows[0], client], 0), rows[1] + 1


def join(first, second):
  return tf.concat([first[0], second[0]], 0), first[1] + second[1]


def rows_of(*sizes):
  """Returns one matrix per client; all rows differ."""
  starts = np.cumsum(sizes) - sizes
  return [
    np.arange(2 * start, 2 * (start + size), dtype=np.float32).reshape(-1, 2)
    for start, size in zip(starts, sizes, strict=True)
  ]


def build(report=None):
  return mergeable_aggregate.build(
    CLIENT, zero=no_rows, accumulate=append, merge=join, report=report
  )


def test_the_type_is_that_of_the_accumulator():
  signature = build().type_signature
  assert signature.parameter == tff.FederatedType(CLIENT, tff.CLIENTS)
  accumulator = (tff.TensorType(np.float32, [None, 2]), np.int32)
  signature.result.check_assignable_from(
    tff.FederatedType(accumulator, tff.SERVER)
  )


@pytest.mark.parametrize("sizes", [(), (1,), (0,), (2, 0, 1, 3)])
def test_all_rows_arrive_in_the_order_of_the_clients(sizes):
  rows, number = build()(rows_of(*sizes))
  np.testing.assert_array_equal(rows, rows_of(sum(sizes))[0])
  assert number == len(sizes)


def test_a_report_of_all_rows_may_have_another_type():
  collect = build(
    lambda rows: {"sum": tf.reduce_sum(rows[0], 0), "number": rows[1] + 100}
  )
  assert collect.type_signature.result.member["sum"].shape == (2,)
  found = collect(rows_of(2, 1))
  np.testing.assert_array_equal(found["sum"], [6, 9])
  assert found["number"] == 102


@tff.tensorflow.computation(np.int32)
def rows_from(number):
  return tf.reshape(tf.cast(tf.range(2 * number), tf.float32), [-1, 2])


def test_parts_share_the_clients():
  collect = build()

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def collect_mapped(numbers):
    return collect(tff.federated_map(rows_from, numbers))

  alone = collect_mapped([1, 2, 3])
  with runtime.in_parts_of(2):
    together = collect_mapped([1, 2, 3])
  assert alone[1] == together[1] == 3
  assert sorted(map(tuple, alone[0])) == sorted(map(tuple, together[0]))
  assert len(alone[0]) == 6
