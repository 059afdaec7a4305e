"""Tests of worker processes while the program runs."""

import mmap
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest
import tensorflow_federated as tff

from tests import source_tree
from tff_fair import runtime
from tff_fair.runtime import workers


def environment_of(worker):
  content = pathlib.Path(f"/proc/{worker.pid}/environ").read_text()
  return dict(line.split("=", 1) for line in content.split("\0") if line)


@pytest.fixture(scope="module")
def worker():
  with runtime.start_worker() as started:
    yield started


@pytest.fixture(scope="module")
def open_worker():
  with runtime.start_worker(private=False) as started:
    yield started


def test_tffs_worker_has_no_cuda():
  # As docs/tff.md has it. What uses a GPU loads the driver by this name.
  with (
    workers.worker_binary().open("rb") as file,
    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
  ):
    assert content.find(b"tensorflow") >= 0
    assert content.find(b"libcuda.so") < 0


def is_listening(address):
  scheme, _, place = address.partition(":")
  is_unix = scheme == "unix"
  with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as client:
    client.settimeout(10.0)
    return client.connect_ex(place if is_unix else (scheme, int(place))) == 0


def test_worker_is_listening_and_known(worker):
  assert worker.is_running
  assert worker.pid in runtime.worker_pids()
  assert is_listening(worker.address)


def test_worker_is_no_part_of_the_process_group_of_the_program(worker):
  assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)


def test_stopped_worker_is_gone():
  with runtime.start_worker() as worker:
    pass
  assert not worker.is_running
  assert worker.wait(timeout=0) == -signal.SIGKILL
  assert worker.pid not in runtime.worker_pids()
  assert not pathlib.Path(f"/proc/{worker.pid}").exists()
  assert not is_listening(worker.address)
  worker.stop()  # Once more changes nothing.


def test_worker_outlives_the_thread_that_asked_for_it():
  started = []
  thread = threading.Thread(
    target=lambda: started.append(runtime.start_worker())
  )
  thread.start()
  thread.join()
  with started[0] as worker, pytest.raises(subprocess.TimeoutExpired):
    worker.wait(timeout=0.5)


def test_environment_of_the_caller_is_over_the_one_of_the_program(monkeypatch):
  monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
  monkeypatch.setenv("TFF_FAIR_TEST_A", "of the program")
  monkeypatch.setenv("TFF_FAIR_TEST_B", "of the program")
  with runtime.start_worker(
    environment={"TFF_FAIR_TEST_B": "of the caller", "MALLOC_MMAP_MAX_": "7"}
  ) as worker:
    environment = environment_of(worker)
  assert environment["TFF_FAIR_TEST_A"] == "of the program"
  assert environment["TFF_FAIR_TEST_B"] == "of the caller"
  assert environment["MALLOC_ARENA_MAX"] == "3"
  assert environment["MALLOC_MMAP_MAX_"] == "7"


def test_allocator_keeps_memory_by_default(monkeypatch):
  for name in [n for n in os.environ if n.startswith("MALLOC_")]:
    monkeypatch.delenv(name)  # Dask sets some for the workers that it starts.
  with runtime.start_worker() as worker:
    environment = environment_of(worker)
  cores = len(os.sched_getaffinity(0))
  assert int(environment["MALLOC_ARENA_MAX"]) == min(cores, 4)
  assert environment["MALLOC_MMAP_MAX_"] == "0"
  assert int(environment["MALLOC_TRIM_THRESHOLD_"]) > 2**35


@pytest.mark.parametrize(
  ("given", "expected"),
  [(None, len(os.sched_getaffinity(0))), (-1, -1), (3, 3)],
)
def test_as_many_clients_at_a_time_as_there_are_cores(given, expected):
  with runtime.start_worker(max_concurrent_computation_calls=given) as worker:
    command = pathlib.Path(f"/proc/{worker.pid}/cmdline").read_bytes()
  assert f"--max_concurrent_computation_calls={expected}\0" in command.decode()


def test_port_can_be_chosen_and_taken_again():
  with runtime.start_worker(private=False) as worker:
    port = worker.port
  for _ in range(2):
    with runtime.start_worker(port) as worker:
      assert worker.address == f"127.0.0.1:{port}"
      assert is_listening(worker.address)


def test_port_of_a_worker_is_not_shared(open_worker):
  with pytest.raises(OSError, match=f"port {open_worker.port}"):
    runtime.start_worker(open_worker.port)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_port_must_be_one(port):
  with pytest.raises(ValueError, match="65535"):
    runtime.start_worker(port)


def test_worker_that_refuses_to_start_is_told():
  before = runtime.worker_pids()
  with pytest.raises(RuntimeError, match=r"\(1\)"):
    runtime.start_worker(max_concurrent_computation_calls="many")  # type: ignore[arg-type]
  assert runtime.worker_pids() == before


@pytest.mark.parametrize("private", [None, False])
def test_worker_that_is_not_ready_in_time_is_stopped(
  monkeypatch, tmp_path, private
):
  never_ready = tmp_path / "worker_binary"
  never_ready.write_text("#!/bin/sh\nexec sleep 60\n")
  never_ready.chmod(0o755)
  monkeypatch.setattr(workers, "worker_binary", lambda: never_ready)
  before = runtime.worker_pids()
  with pytest.raises(TimeoutError, match="listen"):
    runtime.start_worker(private=private, timeout=0.2)
  assert runtime.worker_pids() == before


def test_a_worker_at_another_place_is_told(monkeypatch, tmp_path):
  assert workers.worker_binary().is_file()
  place = str(tmp_path / "__init__.py")
  monkeypatch.setattr(tff.__spec__, "origin", place)
  with pytest.raises(FileNotFoundError, match=str(tmp_path)):
    workers.worker_binary()


_COUNT_PAGE_FAULTS = """
import resource, sys, threading
if sys.argv[1:]:
  from tff_fair.runtime import workers
  assert workers.keep_freed_memory()
  assert "tensorflow" not in sys.modules
def faults(repetitions):
  for _ in range(repetitions):
    thread = threading.Thread(target=lambda: b"x" * 2**26)
    thread.start()  # 16384 pages, freed at once.
    thread.join()
  return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(-faults(3) + faults(10))
"""


def page_faults(*arguments):
  command = [sys.executable, "-c", _COUNT_PAGE_FAULTS, *arguments]
  return int(subprocess.check_output(command, cwd=source_tree.ROOT, timeout=60))


def test_freed_memory_is_used_again_without_page_faults():
  assert page_faults() > 10_000
  assert page_faults("kept") < 1_000
