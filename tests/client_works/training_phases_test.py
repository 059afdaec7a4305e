"""Tests of how a client finds its own signals among the cohort's."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair import client_dataset, types
from tff_fair.client_works import batches, training

LARGE = 2**40 + 1


def cohort_of(client_id):
  """Returns a cohort whose field i is 10 k + i for the client at place k."""
  places = np.arange(len(client_id), dtype=np.float32)
  fields = types.ClientSignals._fields[1:]
  columns = {name: 10 * places + i for i, name in enumerate(fields)}
  return types.ClientSignals(
    client_id=tf.constant(client_id, tf.int64),
    **{k: tf.constant(v, tf.float32) for k, v in columns.items()},
  )


def own(client_id, cohort):
  found = training.signals_of(cohort, tf.constant(client_id, tf.int64))
  return [x.numpy() for x in found]


def test_a_client_finds_its_own_signals():
  cohort = cohort_of([7, LARGE, 0])
  assert own(LARGE, cohort) == [LARGE, *range(10, 17)]
  assert own(0, cohort) == [0, *range(20, 27)]


def test_a_client_that_comes_twice_finds_those_of_the_first_place():
  assert own(7, cohort_of([3, 7, 7])) == own(7, cohort_of([3, 7]))


@pytest.mark.parametrize("others", [[], [7, 8]])
def test_a_client_that_the_cohort_lacks_does_not_count(others):
  client_id, num_examples, loss, *rest = own(5, cohort_of(others))
  assert client_id == 5
  assert num_examples == 0
  assert np.isnan(loss)
  assert rest == [0] * 5


def test_effective_steps_are_unknown_before_training():
  known = list(types.ClientSignals._fields)
  known.remove("effective_steps")
  assert training.are_known_before_training(known)
  assert training.are_known_before_training(())
  assert not training.are_known_before_training(["loss", "effective_steps"])


def test_the_id_of_data_in_any_form():
  examples = tf.data.Dataset.from_tensors((tf.zeros([3, 2]), tf.zeros([3])))
  data = client_dataset(LARGE, examples)
  assert batches.client_id_of(data) == LARGE
  assert batches.client_id_of(data.take(0)) == 0
  assert batches.client_id_of([(LARGE, None), (LARGE, None)]) == LARGE
  assert batches.client_id_of([]) == 0
