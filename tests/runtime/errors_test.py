"""Tests that errors of computations name the client, in one line."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.runtime import computations
from tff_fair import client_dataset, runtime


def client(client_id, labels):
  x = np.ones([len(labels), small_problem.NUM_FEATURES], np.float32)
  return small_problem.whole(client_id, (x, np.array(labels, np.int32)))


@pytest.fixture(scope="module")
def process():
  return computations.process("fedavg")


@pytest.mark.parametrize("label", [3, -1, 7])
def test_the_client_and_its_label_are_named(process, label):
  state = process.initialize()
  good = [client(k, [0, 1, 2]) for k in range(3)]
  with pytest.raises(
    ValueError, match=f"y .*client 70 .*label {label};.* 0 to 2"
  ) as caught:
    process.next(state, [*good, client(70, [0, 1, 2, label])])
  assert "\n" not in str(caught.value)
  # The context still works.
  process.next(state, good)


ELEMENT = tff.StructType([np.int64, tff.TensorType(np.float32, [None])])


def total_of(function):
  """Returns the sum over clients of a function of their batch."""

  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def of_client(data):
    _, batch = data.get_single_element()
    return function(tf.reduce_sum(batch))

  return computations.summed(of_client)


def checked(x):
  return tf.debugging.check_numerics(x, "no number")


def bounded(x):
  with tf.control_dependencies(
    [tf.debugging.assert_less(x, 5.0, "on purpose")]
  ):
    return tf.identity(x)


def drawing(x):
  """Returns `bounded(x)`; its random number makes clients run step by step."""
  return bounded(x) + 0 * tf.random.uniform([])


@pytest.mark.parametrize(
  ("function", "bad", "said"),
  [
    (checked, np.nan, "no number"),
    (bounded, 9, "on purpose"),
    (drawing, 9, "on purpose"),
  ],
)
def test_what_fails_names_the_client_in_one_line(function, bad, said):
  batches = [1.0, 2.0, bad]
  cohort = [
    client_dataset(k, tf.data.Dataset.from_tensors(np.float32([value])))
    for k, value in zip((4, 5, 61), batches, strict=True)
  ]
  compute = total_of(function)
  with pytest.raises(RuntimeError, match=said) as caught:
    compute(cohort)
  assert "client 61" in str(caught.value)
  assert "\n" not in str(caught.value)
  assert len(str(caught.value)) <= 300
  assert compute(cohort[:2]) == 3.0


def test_errors_of_the_worker_are_one_line():
  compute = computations.summed(
    tff.tensorflow.computation(bounded, tff.TensorType(np.float32))
  )
  runtime.use_local(exact=True)
  try:
    with pytest.raises(RuntimeError, match="on purpose") as caught:
      compute([np.float32(1), np.float32(9)])
    assert compute([np.float32(1), np.float32(2)]) == 3.0
  finally:
    runtime.use_local()
  assert "\n" not in str(caught.value)
  assert len(str(caught.value)) <= 300
  assert caught.value.__cause__ is not None
