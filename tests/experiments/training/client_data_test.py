"""Tests of the data of a run's clients, in files and in messages."""

import os
import tempfile
import threading

import numpy as np
import pytest

import tasks
import tff_fair
from tests import small_problem
from tests.experiments.training.small_run import check_same
from tff_fair.experiments.training import client_data, client_files
from tff_fair.runtime import example_files


@pytest.fixture
def thread():
  thread = client_data.LoadingThread()
  yield thread
  thread.close()


def is_in_file(dataset):
  return isinstance(dataset, example_files.ClientInFiles)


def check(dataset, task, client_id):
  """Checks that a dataset has the examples of a client."""
  ((found_id, found),) = dataset.as_numpy_iterator()
  assert found_id == client_id
  for array, expected in zip(found, task.train.load(client_id), strict=True):
    np.testing.assert_array_equal(array, expected)


def test_clients_without_files_travel(task):
  data = client_data.ClientLoader(task.train, task.element_spec)
  first, second = data([5, 2])
  for client_id, dataset in ((5, first), (2, second)):
    assert not is_in_file(dataset)
    check(dataset, task, client_id)
  assert data([2])[0] is second  # Built once.


def test_clients_with_files_name_them(task, thread):
  files = client_files.ClientFiles(most_bytes=2**30)
  data = client_data.ClientLoader(
    task.train, task.element_spec, files=files, thread=thread
  )
  first, second = data(np.array([5, 2]))
  for client_id, dataset in ((5, first), (2, second)):
    assert is_in_file(dataset)
    check(dataset, task, client_id)
  # Known to the worker, if it comes again.
  assert data([2])[0] is second


def num_open_files(folder):
  """How many files of a folder this program has open, names or not."""
  descriptors = (f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd"))
  return sum(
    os.readlink(descriptor).startswith(f"{folder}/")
    for descriptor in descriptors
    if os.path.lexists(descriptor)
  )


def test_files_are_gone_when_no_client_uses_them(task, tmp_path, monkeypatch):
  monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
  monkeypatch.setattr(client_files, "_MOST_PARTS", 3)
  size = sum(array.nbytes for array in task.train.load(0))
  files = client_files.ClientFiles(most_bytes=4 * size)
  data = client_data.ClientLoader(task.train, task.element_spec, files=files)
  for client_ids in ([0, 1], [2, 3], [4], [4, 0]):
    for client_id, dataset in zip(client_ids, data(client_ids), strict=True):
      assert is_in_file(dataset)
      check(dataset, task, client_id)
  assert 2 <= num_open_files(tmp_path) <= 8  # Two for each part.
  assert list(tmp_path.iterdir()) == []
  del data, files
  assert num_open_files(tmp_path) == 0


@pytest.mark.parametrize("most_bytes", [200_000, 0])
def test_a_client_that_finds_no_room_travels(task, most_bytes):
  files = client_files.ClientFiles(most_bytes)
  data = client_data.ClientLoader(task.train, task.element_spec, files=files)
  # The files of one call must all stay until the next.
  for _ in range(2):
    clients = data(range(7))
    assert sum(map(is_in_file, clients)) < 7
    assert any(map(is_in_file, clients)) == bool(most_bytes)
    for client_id, dataset in enumerate(clients):
      check(dataset, task, client_id)


def test_a_client_larger_than_a_file_has_its_own(task):
  size = sum(array.nbytes for array in task.train.load(0))
  files = client_files.ClientFiles(most_bytes=10 * size)
  stored = [files.put(k, 1, [np.full(size, k, np.uint8)]) for k in range(3)]
  assert len({id(client.part) for client in stored}) == 3
  assert [files.get(k) for k in range(4)] == [*stored, None]


def test_a_full_disk_is_no_error(task, monkeypatch):
  def full(buffering):
    assert buffering == 0
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(tempfile, "TemporaryFile", full)
  files = client_files.ClientFiles(most_bytes=2**30)
  data = client_data.ClientLoader(task.train, task.element_spec, files=files)
  (dataset,) = data([3])
  assert not is_in_file(dataset)
  check(dataset, task, 3)


def test_data_is_loaded_ahead_and_errors_come_when_it_is_needed(thread):
  loaded, is_loaded = [], threading.Event()

  def load(client_id):
    if client_id == 9:
      is_loaded.set()
      raise tasks.DataError("damaged")
    loaded.append(client_id)
    return np.zeros([1, 2], np.float32), np.zeros([1], np.int32)

  split = tasks.Split(num_examples=np.ones(10, np.int64), load=load)
  spec = two_numbers()
  data = client_data.ClientLoader(split, spec, thread=thread)
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


def test_the_worker_on_this_machine_reads_files():
  assert client_files.open_files() is not None


def test_without_a_worker_here_there_are_no_files(monkeypatch):
  monkeypatch.setattr(tff_fair.runtime, "count_clients", lambda: None)
  assert client_files.open_files() is None


def test_a_worker_that_cannot_read_files_gets_none(monkeypatch):
  nowhere = (example_files.Place("/proc/nowhere", 0),)
  monkeypatch.setattr(
    client_files.StoredClient, "places", property(lambda _: nowhere)
  )
  assert client_files.open_files() is None


@pytest.mark.parametrize("algorithm", ["fedavg", "ditto"])
def test_a_round_is_the_same_bit_for_bit(task, algorithm):
  process = tff_fair.algorithms.build(
    algorithm,
    task.model,
    client_optimizer=small_problem.optimizer(),
    batch_size=8,
    local_epochs=2,
    shuffle_seed=0,
    num_clients=task.num_clients,
  )
  states = []
  with client_data.opened(task) as (in_files, *_):
    sent = client_data.ClientLoader(task.train, task.element_spec)
    assert is_in_file(in_files([0])[0])
    for data in (in_files, sent):
      state = process.initialize()
      for client_ids in ([0, 3, 4], [1, 3, 6]):
        before = tff_fair.runtime.count_clients().begun
        state = process.next(state, data(client_ids)).state
        begun = tff_fair.runtime.count_clients().begun - before
        assert begun == len(client_ids)
      states.append(state.global_model_weights.trainable)
  check_same(*states)
