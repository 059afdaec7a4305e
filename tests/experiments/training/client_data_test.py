"""Tests of the data of a run's clients."""

import concurrent.futures
import threading

import numpy as np
import pytest

import tasks
import tff_fair
from tests import small_problem
from tests.experiments.training.small_run import check_same
from tff_fair.experiments.training import client_data


def test_clients_stay_in_memory_up_to_a_number_of_bytes(monkeypatch):
  loaded = []

  def load(client_id):
    loaded.append(client_id)
    size = 50 if client_id == 9 else 1
    return np.zeros([size, 2], np.float32), np.zeros([size], np.int32)

  monkeypatch.setattr(client_data, "_MOST_CACHED_BYTES", 3 * 12)
  split = tasks.Split(num_examples=np.ones(10, np.int64), load=load)
  data = client_data.ClientLoader(split, two_numbers())
  for ids, expected in (
    ([1, 2, 3], [1, 2, 3]),
    # The client that was used last is the last to leave.
    ([1], []),
    ([4, 1, 3], [4]),
    ([2], [2]),
    # Client 9 is larger than the limit, so no client stays.
    ([9, 9], [9, 9]),
    ([2], [2]),
  ):
    data(ids)
    assert loaded == expected
    loaded.clear()


def test_data_is_loaded_ahead_and_errors_come_when_it_is_needed():
  loaded, is_loaded = [], threading.Event()

  def load(client_id):
    if client_id == 9:
      is_loaded.set()
      raise tasks.DataError("damaged")
    loaded.append(client_id)
    return np.zeros([1, 2], np.float32), np.zeros([1], np.int32)

  split = tasks.Split(num_examples=np.ones(10, np.int64), load=load)
  with concurrent.futures.ThreadPoolExecutor(1) as thread:
    data = client_data.ClientLoader(split, two_numbers(), thread=thread)
    data([1, 2])
    data.prepare([3, 9])
    assert is_loaded.wait(10)
    assert loaded == [1, 2, 3]
    data([1])  # This call does not ask for client 9.
    with pytest.raises(tasks.DataError, match="damaged"):
      data([3, 9])
    with pytest.raises(tasks.DataError, match="damaged"):
      data([9])
    data.prepare([4])
    assert len(data([4])) == 1
    assert loaded == [1, 2, 3, 4]


def two_numbers():
  return tasks.task.element_spec([2])


def test_a_round_is_the_same_bit_for_bit(task):
  process = tff_fair.algorithms.build(
    "ditto",
    task.model,
    client_optimizer=small_problem.optimizer(),
    batch_size=8,
    local_epochs=2,
    shuffle_seed=0,
    num_clients=task.num_clients,
  )
  states = []
  with client_data.open_datasets(task) as (by_a_thread, *_):
    here = client_data.ClientLoader(task.train, task.element_spec)
    for data in (by_a_thread, here):
      state = process.initialize()
      for client_ids in ([0, 3, 4], [1, 3, 6]):
        before = tff_fair.runtime.count_clients().num_started
        state = process.next(state, data(client_ids)).state
        begun = tff_fair.runtime.count_clients().num_started - before
        assert begun == len(client_ids)
      states.append(state.global_model_weights.trainable)
  check_same(*states)
