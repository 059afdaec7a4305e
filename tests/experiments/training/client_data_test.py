"""Tests of the data of a run's clients, in files and in messages."""

import os
import tempfile
import threading

import numpy as np
import pytest

import tasks
import tff_fair
from tests import small_problem
from tff_fair.client_works import example_files
from tff_fair.experiments.training import client_data, client_files


@pytest.fixture(scope="module")
def task():
  return tasks.load("digits", num_clients=7, model="logistic_regression")


@pytest.fixture
def thread():
  thread = client_data.LoadingThread()
  yield thread
  thread.close()


def path_and_rows(dataset):
  ((client_id, path, (x, y)),) = dataset.as_numpy_iterator()
  return int(client_id), path.decode(), x, y


def held(task, client_id):
  parts = example_files.contents(task.train.load(client_id), task.element_spec)
  return b"".join(part.tobytes() for part in parts)


def read(path):
  with open(path, "rb") as file:
    return file.read()


def test_clients_without_files_travel(task):
  data = client_data.ClientData(task.train, task.element_spec)
  first, second = data([5, 2])
  for client_id, dataset in ((5, first), (2, second)):
    found_id, path, x, y = path_and_rows(dataset)
    assert (found_id, path) == (client_id, "")
    expected_x, expected_y = task.train.load(client_id)
    np.testing.assert_array_equal(x, expected_x)
    np.testing.assert_array_equal(y, expected_y)
  assert data([2])[0] is second  # Built once.


def test_clients_with_files_name_them(task, thread):
  files = client_files.ClientFiles(most_bytes=2**30, most_files=100)
  data = client_data.ClientData(
    task.train, task.element_spec, files=files, thread=thread
  )
  first, second = data(np.array([5, 2]))
  for client_id, dataset in ((5, first), (2, second)):
    found_id, path, x, _ = path_and_rows(dataset)
    assert found_id == client_id
    assert len(x) == 0
    assert read(path) == held(task, client_id)
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


def test_files_are_gone_when_nobody_uses_them(task, tmp_path, monkeypatch):
  monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
  files = client_files.ClientFiles(most_bytes=2**30, most_files=3)
  data = client_data.ClientData(task.train, task.element_spec, files=files)
  paths = {}
  for client_ids in ([0, 1], [2, 3], [4]):
    for client_id, dataset in zip(client_ids, data(client_ids), strict=True):
      _, paths[client_id], *_ = path_and_rows(dataset)
      assert read(paths[client_id]) == held(task, client_id)
  assert num_open_files(tmp_path) == 3  # The last three.
  assert list(tmp_path.iterdir()) == []
  del data, files
  assert num_open_files(tmp_path) == 0


@pytest.mark.parametrize("limits", [(2**30, 2), (2000, 100), (0, 100)])
def test_who_finds_no_room_travels(task, limits):
  files = client_files.ClientFiles(*limits)
  data = client_data.ClientData(task.train, task.element_spec, files=files)
  # The files of one call must all stay until the next.
  clients = [path_and_rows(dataset) for dataset in data(range(7))]
  in_files = [path for _, path, *_ in clients if path]
  assert len(in_files) == len(set(in_files)) < 7
  for client_id, path, x, y in clients:
    if path:
      assert read(path) == held(task, client_id)
    else:
      np.testing.assert_array_equal(y, task.train.load(client_id)[1])
      assert len(x) == len(y) > 0


def test_a_full_disk_is_no_error(task, monkeypatch):
  def full(buffering):
    assert buffering == 0
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(tempfile, "TemporaryFile", full)
  files = client_files.ClientFiles(most_bytes=2**30, most_files=100)
  data = client_data.ClientData(task.train, task.element_spec, files=files)
  assert path_and_rows(data([3])[0])[1] == ""


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
  data = client_data.ClientData(split, spec, thread=thread)
  data([1, 2])
  data.prepare([3, 9])
  assert is_loaded.wait(10)
  assert loaded == [1, 2, 3]
  data([1])  # Nobody has asked for client 9 yet.
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
  monkeypatch.setattr(
    client_files.ClientFile, "path", property(lambda _: "/proc/nowhere")
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
    data_in_files=True,
    num_clients=task.num_clients,
  )
  states = []
  with client_data.opened(task) as (in_files, _):
    sent = client_data.ClientData(task.train, task.element_spec)
    assert path_and_rows(in_files([0])[0])[1]
    for data in (in_files, sent):
      state = process.initialize()
      for client_ids in ([0, 3, 4], [1, 3, 6]):
        before = tff_fair.runtime.count_clients().begun
        state = process.next(state, data(client_ids)).state
        begun = tff_fair.runtime.count_clients().begun - before
        assert begun == len(client_ids)
      states.append(state.global_model_weights.trainable)
  for first, second in zip(*states, strict=True):
    assert first.tobytes() == second.tobytes()
