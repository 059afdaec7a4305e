"""Tests of values that stay in the worker."""

import gc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import resident_values, sending

DATA = tff.SequenceType(tff.TensorType(np.int32, [None]))


@tff.tensorflow.computation(np.int32, DATA)
def total(factor, data):
  return factor * data.reduce(0, lambda s, x: s + tf.reduce_sum(x))


@tff.federated_computation(
  tff.FederatedType(np.int32, tff.SERVER),
  tff.FederatedType(DATA, tff.CLIENTS),
)
def totals(factor, data):
  return tff.federated_map(total, (tff.federated_broadcast(factor), data))


@pytest.fixture(autouse=True)
def new_worker():
  """Values that other tests sent must not count."""
  runtime.use_local()


@pytest.fixture
def sent(monkeypatch):
  """What is sent, by the sizes of lists of datasets."""
  sizes = []
  send = sending.SendingExecutor.create_value

  async def create_value(self, value, type_spec=None):
    if isinstance(value, list):
      sizes.append(len(value))
    return await send(self, value, type_spec)

  monkeypatch.setattr(sending.SendingExecutor, "create_value", create_value)
  return sizes


def datasets(*numbers):
  return [tf.data.Dataset.from_tensors(np.int32([n, n])) for n in numbers]


def test_the_third_time_nothing_is_sent(sent):
  data = datasets(1, 2, 3)
  for factor in (1, 2, 3, 4):
    assert totals(factor, data) == [2 * factor, 4 * factor, 6 * factor]
  assert sent == [3, 3]


def test_a_list_is_known_by_its_datasets(sent):
  one, two, three = datasets(1, 2, 3)
  for cohort, expected in (
    ([one, two], [2, 4]),
    ([one, two], [2, 4]),
    ([one, two], [2, 4]),
    ([two, one], [4, 2]),
    ([one, three], [2, 6]),
    ([one, one], [2, 2]),
    ([one, two], [2, 4]),
  ):
    assert totals(1, cohort) == expected
  assert len(sent) == 5


def test_new_datasets_in_the_place_of_old_ones():
  # Their ids are used again.
  for n in range(8):
    assert totals(1, datasets(n, n + 1)) == [2 * n, 2 * n + 2]
    gc.collect()


def test_what_is_too_large_is_sent_each_time(sent, monkeypatch):
  monkeypatch.setattr(resident_values, "_MOST_BYTES", 100)
  data = datasets(1, 2)
  for _ in range(4):
    assert totals(1, data) == [2, 4]
  assert sent == [2] * 4


def test_the_least_recently_used_goes_first(sent, monkeypatch):
  monkeypatch.setattr(resident_values, "_MOST_VALUES", 3)
  cohorts = [datasets(n, n) for n in range(4)]
  for cohort in cohorts * 3:  # More than there is room for: no one is known.
    totals(1, cohort)
  assert len(sent) == 12
  for _ in range(3):
    totals(1, cohorts[3])
  assert len(sent) <= 14


def test_datasets_that_draw_at_random_draw_anew():
  # A seed that an earlier test set would be in the dataset.
  tf.random.set_seed(None)
  data = [
    tf.data.Dataset.range(1000)
    .shuffle(1000)
    .take(1)
    .map(lambda x: tf.cast(x, tf.int32)[tf.newaxis])
  ]
  assert len({totals(1, data)[0] for _ in range(8)}) > 1


def test_a_new_worker_has_nothing(sent):
  data = datasets(5)
  for _ in range(3):
    assert totals(1, data) == [10]
  runtime.use_local()
  for _ in range(3):
    assert totals(2, data) == [20]
  assert sent == [1] * 4
