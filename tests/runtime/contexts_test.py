"""Tests of choosing where computations run."""

import os
import pathlib
import socket
import threading

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import sockets
from tests.runtime import ways
from tests.runtime.computations import sum_of_successors, summed
from tff_fair import runtime


@pytest.fixture(autouse=True)
def local_again():
  yield
  runtime.use_local()


def test_a_round_starts_no_process_and_listens_nowhere():
  children = psutil.Process().children()
  before = sockets.listening(os.getpid())
  files = {*map(str, pathlib.Path("/dev/shm").iterdir())}
  runtime.use_local()
  assert sum_of_successors([1.0, 2.0]) == 5.0
  assert psutil.Process().children() == children
  assert sockets.listening(os.getpid()) == before
  assert {*map(str, pathlib.Path("/dev/shm").iterdir())} <= files


def test_sockets_that_listen_are_seen(tmp_path):
  before = sockets.listening(os.getpid())
  for family, address in (
    (socket.AF_INET, ("127.0.0.1", 0)),
    (socket.AF_UNIX, str(tmp_path / "socket")),
  ):
    with socket.socket(family) as here:
      here.bind(address)
      here.listen()
      assert len(sockets.listening(os.getpid()) - before) == 1


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def total_of(data):
  return data.reduce(np.float32(0), lambda s, x: s + x)


sum_of_data = summed(total_of)


def test_the_exact_context_computes_in_a_worker_that_ends_with_it():
  data = [
    tf.data.Dataset.from_tensor_slices(np.float32([n, 1])) for n in (1, 2)
  ]
  value = sum_of_data(data)  # It outlives contexts, as the data do.
  before = {child.pid for child in psutil.Process().children()}
  runtime.use_local(exact=True)
  started = [
    child for child in psutil.Process().children() if child.pid not in before
  ]
  assert "worker_binary" in [child.name() for child in started]
  assert sum_of_data(data) == value == 5.0
  assert sum_of_successors([value, value]) == 12.0
  runtime.use_local()
  assert not [child for child in started if child.is_running()]
  assert sum_of_data(data) == value == 5.0
  assert sum_of_successors([value, value]) == 12.0


def test_default_number_of_clients():
  @tff.federated_computation
  def count():
    return tff.federated_sum(tff.federated_value(1, tff.CLIENTS))

  runtime.use_local(default_num_clients=3)
  assert count() == 3
  assert sum_of_successors([1.0]) == 2.0


def test_secure_sums_only_in_a_simulation():
  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def secure_sum(values):
    return tff.federated_secure_sum_bitwidth(values, 8)

  runtime.use_local(simulate_secure_sums=True)
  assert secure_sum([1, 2, 4]) == 7
  runtime.use_local()
  for size in (0, 2):
    with (
      runtime.in_parts_of(size),
      pytest.raises(RuntimeError, match="simulate_secure_sums=T") as raised,
    ):
      secure_sum([1, 2, 4])
    assert "\n" not in str(raised.value)


def test_nothing_is_computed_after_a_stop():
  runtime.use_local()
  runtime.stop()
  with pytest.raises(RuntimeError, match="use_local"):
    sum_of_successors([1.0])
  runtime.stop()  # A second stop changes nothing.


def test_without_a_choice_it_is_this_program():
  runtime.stop()
  runtime.use_default()
  assert runtime.count_clients() is not None
  assert sum_of_successors([1.0]) == 2.0


def test_a_runtime_replaced_in_another_thread_says_so():
  runtime.use_local()
  thread = threading.Thread(target=runtime.use_local)
  thread.start()
  thread.join()
  with pytest.raises(RuntimeError, match="thread"):
    sum_of_successors([1.0])


@pytest.mark.parametrize(
  ("options", "name"),
  [
    ({"clients_per_part": -1}, "clients_per_part"),
    ({"exact": True, "clients_per_part": 4}, "exact=True"),
    (
      {"max_concurrent_computation_calls": 0},
      "max_concurrent_computation_calls",
    ),
  ],
)
def test_wrong_options_are_named(options, name):
  with pytest.raises(ValueError, match=name):
    runtime.use_local(**options)


def test_a_negative_size_of_parts_is_refused():
  with pytest.raises(ValueError, match="clients_per_part"):
    runtime.in_parts_of(-1).__enter__()


def test_clients_that_have_begun_are_counted():
  data = tff.SequenceType(np.float32)

  @tff.tensorflow.computation(data)
  def first(elements):
    return elements.batch(1).get_single_element()[0]

  @tff.federated_computation(tff.FederatedType(data, tff.CLIENTS))
  def sum_of_first(clients):
    return tff.federated_sum(tff.federated_map(first, clients))

  runtime.use_local()
  before = runtime.count_clients()
  assert before is not None
  assert sum_of_first([[1.0]] * 5) == 5.0
  after = runtime.count_clients()
  assert after is not None
  assert after.num_started - before.num_started == 5
  with ways.step_by_step():
    assert sum_of_first([[1.0]] * 2) == 2.0
  assert runtime.count_clients().num_started - after.num_started == 2
  assert after.max_concurrent == len(os.sched_getaffinity(0))
