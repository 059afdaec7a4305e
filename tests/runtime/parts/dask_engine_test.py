"""Tests of computing in the workers of a Dask cluster."""

import importlib.util
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from unittest import mock

import distributed
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem, source_tree, waiting
from tests.runtime import ways
from tests.runtime.computations import ROW, process, rows, slow, summed
from tff_fair import runtime
from tff_fair.runtime import schedulers, values, version
from tff_fair.runtime.dask_engine import clusters, tasks, worker_execution

CLIENTS_PER_PART = 2
SECONDS_OF_WORK = 0.3
ANY_PORT = "127.0.0.1:0"
AT_CLIENTS = tff.FederatedType(ROW, tff.CLIENTS)


@pytest.fixture(scope="module")
def cluster():
  """Yields a cluster of two workers, which the tests share."""
  with distributed.LocalCluster(
    n_workers=2, threads_per_worker=1, dashboard_address=ANY_PORT
  ) as cluster:
    yield cluster


@pytest.fixture
def client(cluster):
  yield runtime.use_dask(cluster, CLIENTS_PER_PART, worker_timeout=60.0)
  runtime.stop()


def two_rounds(name, first, second):
  output = process(name).next(process(name).initialize(), first)
  return output, process(name).next(output.state, second)


# A method that collects the updates, and one that streams them.
@pytest.mark.parametrize(
  "name", ["fedmgda_plus", pytest.param("fedavg", marks=pytest.mark.long)]
)
def test_rounds_are_those_of_a_local_worker_bit_for_bit(name, client):
  del client
  datasets = [*map(small_problem.whole, small_problem.CLIENT_IDS)]
  references = [
    runtime.DataAtWorker(small_problem.whole, client_id)
    for client_id in small_problem.CLIENT_IDS
  ]
  found = two_rounds(name, datasets, references)
  runtime.use_local(clients_per_part=CLIENTS_PER_PART)
  expected = two_rounds(name, datasets, datasets)
  assert type(found[1].state) is type(expected[1].state)
  ways.assert_same_bits(found, expected)


slow_row = slow(SECONDS_OF_WORK, ROW)
slow_sum = summed(slow_row)


@tff.federated_computation(AT_CLIENTS)
def quick_sum(rows):
  return tff.federated_sum(rows)


@tff.federated_computation(tff.FederatedType(ROW, tff.SERVER), AT_CLIENTS)
def slow_sum_beside(row, rows):
  return row, tff.federated_sum(tff.federated_map(slow_row, rows))


def test_parts_are_spread_over_the_workers(client):
  waiting.until(lambda: not any(client.processing().values()))
  before = executed(client)
  slow_sum_beside(rows(1)[0], rows(16))  # Eight parts of two clients.
  for worker, keys in before.items():
    assert len(executed(client)[worker] - keys) >= 3


def executed(client):
  """Returns the keys of the calls that each worker has begun."""
  logs = client.run(lambda dask_worker: [*dask_worker.state.log])
  return {
    worker: {e[0] for e in log if "executing" in e and "tff_" in str(e[0])}
    for worker, log in logs.items()
  }


def build_none(client_id):
  raise OSError(f"no file of client {client_id}")


def test_errors_of_data_at_workers_are_their_own(client):
  del client
  clients = [runtime.DataAtWorker(build_none, 7)]
  with pytest.raises(OSError, match="client 7"):
    process("fedmgda_plus").next(process("fedmgda_plus").initialize(), clients)


def test_a_label_out_of_range_is_named_with_its_client(client):
  del client
  x, y = small_problem.client_arrays()[5]
  bad = small_problem.whole(5, (x, np.full_like(y, small_problem.NUM_CLASSES)))
  clients = [*map(small_problem.whole, (12, 3)), bad]
  with pytest.raises(ValueError, match=r"client 5 .*label 3"):
    process("fedmgda_plus").next(process("fedmgda_plus").initialize(), clients)


def test_nothing_is_held_after_a_round(client):
  quick_sum(rows(5))
  held = client.run_on_scheduler(count_tasks)
  quick_sum(rows(5))
  waiting.until(lambda: client.run_on_scheduler(count_tasks) <= held)


def count_tasks(dask_scheduler):
  return len(dask_scheduler.tasks)


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.long)])
def test_workers_that_are_killed_in_a_round_change_nothing(client, number):
  given = rows(8)
  expected = slow_sum(given)
  pids = [*client.run(os.getpid).values()][:number]

  def kill():
    waiting.until(lambda: any(map(is_at_work, client.processing().values())))
    for pid in pids:
      os.kill(pid, signal.SIGKILL)

  killing = threading.Thread(target=kill)
  killing.start()
  np.testing.assert_array_equal(slow_sum(given), expected)
  killing.join()
  assert not {*pids} & {*client.run(os.getpid).values()}


def is_at_work(keys):
  return any(key.startswith("tff_") for key in keys)


# Tests without a worker.


@pytest.fixture
def empty_cluster():
  with distributed.LocalCluster(
    n_workers=0, processes=False, protocol="tcp://", dashboard_address=ANY_PORT
  ) as cluster:
    yield cluster


def test_without_a_worker_it_waits_and_then_tells(empty_cluster):
  runtime.use_dask(empty_cluster.scheduler_address, worker_timeout=1.0)
  said = []
  with (
    runtime.supervised(say=said.append),
    pytest.raises(runtime.WorkerLostError, match="1 s"),
  ):
    quick_sum(rows(2))
  assert len(said) == 1
  assert "has no worker" in said[0]


def test_a_scheduler_that_goes_is_told(empty_cluster):
  runtime.use_dask(empty_cluster.scheduler_address)
  closing = threading.Timer(1.0, empty_cluster.close)
  closing.start()
  with pytest.raises(runtime.WorkerLostError, match="scheduler at"):
    quick_sum(rows(2))
  closing.join()


def test_a_scheduler_that_is_not_there_is_told(monkeypatch):
  monkeypatch.setattr(clusters, "_SECONDS_TO_CLOSE", 0.2)
  with socket.create_server(("127.0.0.1", 0)) as silent:
    port = silent.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port} .*1 s"):
      runtime.use_dask(f"tcp://127.0.0.1:{port}", timeout=1.0)
  with pytest.raises(ConnectionError, match="refused"):
    schedulers.check_scheduler(f"tcp://127.0.0.1:{port}", timeout=1.0)


@pytest.mark.parametrize(
  "address", ["host", "host:1", "tcp://host", "tcp://host:0", "http://host:1"]
)
def test_what_is_no_address_is_told(address):
  with pytest.raises(ValueError, match="tcp://host:port"):
    schedulers.check_scheduler(address, timeout=1.0)


def test_numbers_are_checked():
  with pytest.raises(ValueError, match="clients_per_part"):
    runtime.use_dask(clients_per_part=-1)
  with pytest.raises(ValueError, match="num_workers"):
    runtime.use_dask(num_workers=0)
  with pytest.raises(ValueError, match="cluster"):
    runtime.use_dask("tcp://127.0.0.1:1", num_workers=2)


def test_without_dask_one_line_tells_what_to_install(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(
    ModuleNotFoundError, match="the extra dask; install it with"
  ):
    runtime.use_dask("tcp://127.0.0.1:1")


@pytest.mark.parametrize(
  ("answer", "message"),
  [
    ({"Python": "3.10", "tff_fair": "1"}, "10.0.0.1:1 .*Python 3.10"),
    ({"Python": "3.11"}, "tff_fair none.* 1"),
    (ModuleNotFoundError("No module named 'tff_fair'"), "tff_fair"),
  ],
)
def test_another_version_at_a_worker_is_told(answer, message):
  expected = {"Python": "3.11", "tff_fair": "1"}
  answers = {"tcp://10.0.0.2:1": dict(expected)}
  client = mock.Mock(**{"run.return_value": answers})
  clusters.check_versions(client, expected)
  answers["tcp://10.0.0.1:1"] = answer
  with pytest.raises(ValueError, match=message):
    clusters.check_versions(client, expected)
  client.run.assert_called_with(version.installed, on_error="return")


def test_a_worker_that_comes_later_is_checked_too():
  others = {**version.installed(), "tensorflow-federated": "0.1"}
  with pytest.raises(tasks.VersionError, match=r" 0\.1"):
    tasks.compute(others, b"", None)


# Values that are sent to workers.


def test_datasets_come_back_as_they_went():
  dataset = tf.data.Dataset.range(5).batch(2)
  type_spec = tff.SequenceType(tff.TensorType(np.int64, [None]))
  graph = worker_execution.to_portable(values.ingest(dataset, type_spec))
  moved = pickle.loads(pickle.dumps(graph))
  found = values.to_containers(
    worker_execution.with_built_data(moved), type_spec
  )
  elements = [x.tolist() for x in found.as_numpy_iterator()]
  assert elements == [[0, 1], [2, 3], [4]]
  # A cohort may be sent again.
  assert worker_execution.to_portable(dataset) is graph


# A cluster that a program starts.

PROGRAM = """
import contextlib, os, sys, time
from tff_fair.runtime.dask_engine import clusters

def main():
  with contextlib.ExitStack() as opened:
    cluster = clusters.start_local(opened, 1)
    client = clusters.connect(opened, cluster, 10.0)
    (pid,) = client.run(os.getpid).values()
    print(cluster.scheduler_address, pid, flush=True)
    if "tensorflow" in sys.modules:
      print("TensorFlow is imported")
    sys.stdin.readline()

if __name__ == "__main__":
  main()
"""


@pytest.mark.parametrize(
  "is_killed", [True, pytest.param(False, marks=pytest.mark.long)]
)
def test_a_cluster_of_the_program_ends_with_it_and_is_its_own(
  tmp_path, is_killed
):
  path = tmp_path / "program.py"
  path.write_text(PROGRAM)
  with subprocess.Popen(
    [sys.executable, path],
    env=source_tree.environment(),
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  ) as program:
    address, pid = program.stdout.readline().split()
    # Other programs cannot connect, and Ctrl-C does not reach the worker.
    assert address.startswith("tls://127.0.0.1:")
    assert ignored_signals(pid) & 1 << (signal.SIGINT - 1)
    if is_killed:
      program.kill()
    else:
      program.stdin.write("\n")
    output, errors = program.communicate(timeout=60)
  assert output == ""
  assert errors == "" or is_killed
  waiting.until(lambda: not os.path.exists(f"/proc/{pid}"))


def ignored_signals(pid):
  with open(f"/proc/{pid}/status") as status:
    (line,) = (line for line in status if line.startswith("SigIgn:"))
  return int(line.split()[1], 16)
