"""Tests of the memory of clients' past updates, against Python lists."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import kernels
from tff_fair.summing import memory

SPEC = tf.TensorSpec([3], tf.float32)


def remember(before, cohort):
  """Returns the memory after a round, as the stacked aggregation does."""
  remembered = [old.updates for old in before.cohorts]
  products = kernels.inner_products([cohort.updates], remembered)
  return memory.remember(before, cohort, memory.gram_with(before, products))


@functools.cache
def remember_in_graph(num_rounds):
  """Returns `remember` as a graph function, with the types that rounds use."""
  empty = tff.tensorflow.computation(lambda: memory.empty(num_rounds, SPEC))
  memory_type = empty.type_signature.result
  cohort_type = tff.types.tensorflow_to_type(
    memory.RememberedCohort(
      tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 3], tf.float32)
    )
  )
  computation = tff.tensorflow.computation(remember, (memory_type, cohort_type))
  # The next round gets this memory, so its type must stay the same.
  assert computation.type_signature.result == memory_type
  return tf.function(
    remember,
    input_signature=tff.types.type_to_tf_tensor_specs(
      tff.to_type((memory_type, cohort_type))
    ),
  )


def cohort(ids, round_num):
  updates = [[client, round_num, -1] for client in range(len(ids))]
  return memory.RememberedCohort(
    tf.constant(ids, tf.int64, [len(ids)]),
    tf.constant(updates, tf.float32, [len(ids), 3]),
  )


def rows(remembered):
  """Returns age, id and update of all remembered clients, in order."""
  matrix = np.concatenate([c.updates for c in remembered.cohorts])
  matrix = matrix.astype(np.float64)
  np.testing.assert_allclose(remembered.gram, matrix @ matrix.T, rtol=1e-14)
  ids, ages = memory.ids_and_ages(remembered)
  updates = tf.concat([c.updates for c in remembered.cohorts], 0)
  return list(
    zip(
      ages.numpy().tolist(),
      ids.numpy().tolist(),
      map(tuple, updates.numpy().tolist()),
      strict=True,
    )
  )


def expected_rows(rounds, num_rounds):
  """Returns the expected `rows` after `rounds`, which are lists of ids."""
  rounds = [ids for ids in rounds if len(ids)]
  remembered = []
  for age, ids in enumerate(reversed(rounds[-num_rounds:]), start=1):
    round_num = len(rounds) - age
    later = {client for other in rounds[round_num + 1 :] for client in other}
    remembered.extend(
      (age, client, (place, round_num, -1))
      for place, client in enumerate(ids)
      if client not in later
    )
  return remembered


@pytest.mark.parametrize("num_rounds", [1, 3])
def test_latest_updates_of_the_last_rounds_are_remembered(num_rounds):
  rng = np.random.default_rng(num_rounds)
  population = [2**62 + 1, 2**62, -5, 0, *range(10, 20)]
  in_graph = remember_in_graph(num_rounds)
  remembered, rounds = memory.empty(num_rounds, SPEC), []
  for _ in range(25):
    ids = rng.permutation(population)[: rng.integers(0, 8)].tolist()
    counted = sum(map(bool, rounds))
    rounds.append(ids)
    remembered = in_graph(remembered, cohort(ids, counted))
    assert rows(remembered) == expected_rows(rounds, num_rounds)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_updates_keep_their_dtype(dtype):
  spec = tf.TensorSpec([2], dtype)
  update = tf.constant([[1.5, -0.1]], dtype)
  remembered = remember(
    memory.empty(1, spec),
    memory.RememberedCohort(tf.constant([3], tf.int64), update),
  )
  assert remembered.cohorts[0].updates.dtype == dtype
  np.testing.assert_array_equal(remembered.cohorts[0].updates, update)
