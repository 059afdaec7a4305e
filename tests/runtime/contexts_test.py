"""Tests of computing in a local worker and in several workers."""

import asyncio
import concurrent.futures
import os
import re
import signal
import socket
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.computations import sum_of_successors
from tff_fair import runtime


@pytest.fixture(scope="module")
def two_addresses(two_workers):
  return [worker.address for worker in two_workers]


def test_second_local_runtime_replaces_the_first():
  before = set(runtime.worker_pids())
  runtime.use_local()
  first = set(runtime.worker_pids()) - before
  assert sum_of_successors([1.0, 2.0]) == 5.0
  runtime.use_local()
  second = set(runtime.worker_pids()) - before
  assert len(first) == len(second) == 1
  assert first != second
  assert sum_of_successors([1.0, 2.0]) == 5.0


def test_default_number_of_clients():
  @tff.federated_computation
  def count():
    return tff.federated_sum(tff.federated_value(1, tff.CLIENTS))

  runtime.use_local(default_num_clients=3)
  assert count() == 3
  assert sum_of_successors([1.0]) == 2.0


def test_worker_does_not_grow_with_every_number_of_clients():
  def num_threads():
    return len(os.listdir(f"/proc/{worker}/task"))

  before = set(runtime.worker_pids())
  runtime.use_local()
  (worker,) = set(runtime.worker_pids()) - before
  for n in range(20):
    assert sum_of_successors([1.0] * n) == 2.0 * n
  enough = num_threads()
  for n in [*range(20, 40), 0, 3]:
    assert sum_of_successors([1.0] * n) == 2.0 * n
  assert num_threads() < enough + 20


def test_secure_sums_only_in_a_simulation():
  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def secure_sum(values):
    return tff.federated_secure_sum_bitwidth(values, 8)

  runtime.use_local(simulate_secure_sums=True)
  assert secure_sum([1, 2, 4]) == 7
  runtime.use_local()
  with pytest.raises(RuntimeError, match="simulate_secure_sums=T") as raised:
    secure_sum([1, 2, 4])
  assert "\n" not in str(raised.value)


def test_values_of_a_program_are_awaited():
  async def program():
    reference = sum_of_successors([1.0, 2.0])
    assert isinstance(reference, tff.program.MaterializableValueReference)
    return await tff.program.materialize_value(reference)

  runtime.use_local(program=True)
  assert asyncio.run(program()) == 5.0


def test_lost_local_worker_is_told_instead_of_awaited():
  before = set(runtime.worker_pids())
  runtime.use_local()
  (worker,) = set(runtime.worker_pids()) - before
  assert sum_of_successors([1.0]) == 2.0
  os.kill(worker, signal.SIGKILL)
  with pytest.raises(RuntimeError, match=rf"{worker}\b.*SIGKILL"):
    sum_of_successors([1.0])
  runtime.use_local()
  assert sum_of_successors([1.0]) == 2.0


def test_nothing_is_computed_after_a_stop():
  runtime.use_local()
  worker = runtime.start_worker()
  runtime.stop()
  assert runtime.worker_pids() == ()
  assert not worker.is_running
  with pytest.raises(RuntimeError, match="use_local"):
    sum_of_successors([1.0])
  runtime.stop()  # Once more changes nothing.


def test_without_a_choice_it_is_a_local_worker():
  runtime.stop()
  runtime.use_default()
  assert len(runtime.worker_pids()) == 1
  assert sum_of_successors([1.0]) == 2.0


def test_runtime_replaced_in_another_thread_is_told():
  runtime.use_local()
  thread = threading.Thread(target=runtime.use_local)
  thread.start()
  thread.join()
  with pytest.raises(RuntimeError, match="thread"):
    sum_of_successors([1.0])


def test_two_addresses_work_at_the_same_time(two_addresses, tmp_path):
  """Each of two clients waits for a sign that the other one gives."""

  @tff.tensorflow.computation(np.int32)
  def meet(client):
    def sign(of):
      return tf.strings.join([str(tmp_path), "/", tf.strings.as_string(of)])

    def is_met():
      return tf.size(tf.io.matching_files(sign(1 - client))) > 0

    start = tf.timestamp()
    with tf.control_dependencies([start]):
      given = tf.io.write_file(sign(client), "")
    with tf.control_dependencies([given]):
      met = tf.while_loop(
        lambda met: ~met & (tf.timestamp() - start < 20.0),
        lambda _: (is_met(),),
        (False,),
      )[0]
    return tf.cast(met, tf.int32)

  @tff.federated_computation(
    tff.FederatedType(np.int32, tff.SERVER),
    tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def count_met(start, clients):
    met = tff.federated_sum(tff.federated_map(meet, clients))
    add = tff.tensorflow.computation(lambda x, y: x + y)
    return tff.federated_map(add, (start, met))

  runtime.use_workers(two_addresses, clients_per_part=1)
  assert count_met(0, [0, 1]) == 2


def test_clients_of_several_workers_are_not_counted(two_addresses):
  runtime.use_local()
  assert runtime.count_clients() is not None
  runtime.use_workers(two_addresses)
  assert runtime.count_clients() is None


def test_workers_started_elsewhere_are_left_running(two_addresses):
  runtime.use_workers(two_addresses)
  assert sum_of_successors([1.0, 2.0, 3.0]) == 9.0
  runtime.use_local()
  runtime.use_workers(two_addresses[:1])
  assert sum_of_successors([1.0, 2.0, 3.0]) == 9.0


def test_proxy_of_the_web_is_not_used(two_addresses, monkeypatch):
  monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
  runtime.use_workers(two_addresses)
  assert sum_of_successors([1.0, 2.0]) == 5.0


def test_unreachable_worker_is_named(two_addresses):
  with socket.socket() as silent:
    silent.bind(("127.0.0.1", 0))  # Refuses connections.
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    runtime.use_workers(two_addresses)
    with pytest.raises(ConnectionError, match=address):
      runtime.use_workers([two_addresses[0], address], timeout=0.5)
  assert sum_of_successors([1.0, 2.0]) == 5.0  # As before.


@pytest.mark.parametrize(
  "address",
  [
    "",
    "host",
    ":8000",
    "host:",
    "host:0",
    "host:65536",
    "host:port",
    "host: 8000",
    "http://host:8000",
    "host:8000/",
    "::1:8000",
    "[::1]",
  ],
)
def test_malformed_address_is_named(address):
  with pytest.raises(ValueError, match=re.escape(repr(address))):
    runtime.use_workers(["host:8000", address])


def test_addresses_are_a_list_of_different_ones():
  with pytest.raises(ValueError, match="one"):
    runtime.use_workers([])
  with pytest.raises(TypeError, match="'host:8000'"):
    runtime.use_workers("host:8000")
  with pytest.raises(ValueError, match="once"):
    runtime.use_workers(["host:8000", "host:8000"])


def test_parts_have_no_negative_size():
  with pytest.raises(ValueError, match=r"clients_per_part.* -1\."):
    runtime.use_workers(["host:8000"], clients_per_part=-1)


# What `use_default` chooses.


def test_a_choice_holds(two_addresses):
  runtime.use_workers(two_addresses)
  before = runtime.worker_pids()
  runtime.use_default()
  assert runtime.worker_pids() == before


def test_a_choice_holds_in_other_threads():
  runtime.use_local()
  before = runtime.worker_pids()

  def compute():
    runtime.use_default()
    return sum_of_successors([1.0])

  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    assert executor.submit(compute).result() == 2.0
  assert sum_of_successors([1.0]) == 2.0
  assert runtime.worker_pids() == before


def test_one_that_returns_no_values_does_not_count():
  runtime.use_local(program=True)
  runtime.use_default()
  assert sum_of_successors([1.0]) == 2.0
