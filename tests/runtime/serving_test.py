"""Tests of a worker that others use, and that is replaced when it must be."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import tensorflow_federated as tff

from tests.runtime.computations import sum_of_successors
from tff_fair import runtime
from tff_fair.runtime import private_socket, private_tff, serving, worker_start

# Leaves executors and a value in a worker, and waits to be killed. It speaks to
# the worker without TensorFlow Federated, which takes seconds to import.
PROGRAM = """
import sys
import grpc
channel = grpc.insecure_channel(
  sys.argv[1], [("grpc.max_send_message_length", -1)]
)
service = "/tensorflow_federated.v0.ExecutorGroup/"
content = sys.stdin.buffer.read()
while content:
  name, size, content = content.split(b" ", 2)
  message, content = content[:int(size)], content[int(size):]
  channel.unary_unary(service + name.decode())(message)
print("READY", flush=True)
import time
time.sleep(600)
"""


@pytest.fixture
def said():
  return []


@pytest.fixture
def service(said):
  with serving.Service(
    host=None, port=0, memory_limit=None, say=said.append
  ) as started:
    yield started


def look_until(service, condition, seconds=30.0):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline
    service.look()
    time.sleep(0.05)


def executor_of(num_clients):
  """Returns an executor as workers name it, and the request for it."""
  cardinality = private_tff.executor_pb2.Cardinality(
    placement=tff.framework.Placement(tff.CLIENTS).proto.placement,
    cardinality=num_clients,
  )
  return private_tff.executor_pb2.GetExecutorRequest(
    cardinalities=[cardinality]
  )


def start_program(address, number):
  """Starts a program that leaves ten executors of its own in a worker."""
  requests = [executor_of(10 * number + n) for n in range(10)]
  messages = [r.SerializeToString() for r in requests]
  program = subprocess.Popen(
    [sys.executable, "-c", PROGRAM, address],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )
  program.stdin.write(
    b"".join(b"GetExecutor %d " % len(m) + m for m in messages)
  )
  program.stdin.close()
  return program


def test_what_killed_programs_left_is_freed(service, said, monkeypatch):
  monkeypatch.setattr(serving, "_SECONDS_ALONE", 1.0)
  worker = service._worker
  fresh = worker.num_threads()
  programs = [start_program(service.address, number) for number in range(3)]
  for program in programs:
    assert program.stdout.readline() == b"READY\n"
  service.look()
  grown = worker.num_threads()
  assert grown > fresh + 30
  for program in programs[:2]:
    program.kill()
    program.wait()
  until = time.monotonic() + 2.0
  look_until(service, lambda: time.monotonic() > until)
  assert service._worker is worker  # One program is still there.
  programs[2].kill()
  programs[2].wait()
  look_until(service, lambda: service._worker is not worker)
  assert not worker.is_running
  assert service._worker.num_threads() <= fresh + serving._THREADS_OF_NOBODY
  runtime.use_workers([service.address])
  assert sum_of_successors([1.0, 2.0]) == 5.0
  assert said == []


def test_a_worker_that_ended_is_replaced(service, said):
  runtime.use_workers([service.address])
  assert sum_of_successors([1.0, 2.0]) == 5.0
  killed = service.pid
  os.kill(killed, signal.SIGKILL)
  look_until(service, lambda: service.pid != killed)
  (line,) = said
  assert line.startswith(service.address)
  assert f"{killed}) has ended (by SIGKILL). Another one takes its pl" in line
  assert sum_of_successors([1.0, 2.0]) == 5.0


def test_workers_that_end_at_once_are_told(service, said):
  def end_and_look():
    os.kill(service.pid, signal.SIGKILL)
    service._worker.wait()
    service.look()

  end_and_look()
  end_and_look()
  assert len(said) == 2
  with pytest.raises(RuntimeError, match="SIGKILL"):
    end_and_look()


def test_above_the_limit_another_worker_takes_its_place(
  service, said, monkeypatch
):
  runtime.use_workers([service.address])
  assert sum_of_successors([1.0, 2.0]) == 5.0
  large = service.pid
  service._memory_limit = service._worker.memory_bytes() - 1
  monkeypatch.setattr(service, "_is_quiet", lambda: False)
  service.look()
  assert service.pid == large  # It computes.
  monkeypatch.undo()
  look_until(service, lambda: service.pid != large)
  (line,) = said
  assert "MiB of the limit" in line
  service._memory_limit = None
  program_said = []
  with runtime.supervised(say=program_said.append):
    assert sum_of_successors([1.0, 2.0]) == 5.0
  assert program_said == []


def test_a_limit_below_what_a_new_worker_takes_is_told():
  before = runtime.worker_pids()
  with pytest.raises(ValueError, match="MiB"):
    serving.Service(host=None, port=0, memory_limit=2**20, say=print)
  assert runtime.worker_pids() == before


def test_only_the_address_that_was_chosen_is_open(service):
  port = int(service.address.rpartition(":")[2])
  assert service.address == f"127.0.0.1:{port}"
  with pytest.raises(ConnectionRefusedError):
    socket.create_connection(("127.0.0.2", port)).close()
  with pytest.raises(OSError, match="use"):
    serving.Service(host=None, port=port, memory_limit=None, say=print)
  with serving.Service(
    host="0.0.0.0", port=0, memory_limit=None, say=print
  ) as everywhere:
    host, _, its_port = everywhere.address.rpartition(":")
    assert host == socket.gethostname()
    socket.create_connection(("127.0.0.2", int(its_port))).close()


def test_where_the_system_does_not_allow_it_the_port_is_open_to_all(
  monkeypatch, capsys
):
  def refuse(self, keep_waiting):
    del self, keep_waiting
    raise private_socket.PrivateSocketError("not permitted")

  monkeypatch.setattr(private_socket.GivenSocket, "give", refuse)
  worker_start.warn_of_others.cache_clear()
  with serving.Service(
    host=None, port=0, memory_limit=None, say=print
  ) as service:
    runtime.use_workers([service.address])
    assert sum_of_successors([1.0, 2.0]) == 5.0
  assert "docs/security.md" in capsys.readouterr().err
  with pytest.raises(private_socket.PrivateSocketError):
    serving.Service(host="127.0.0.2", port=0, memory_limit=None, say=print)
