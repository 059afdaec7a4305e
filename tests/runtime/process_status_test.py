"""Tests of what Linux tells of a process."""

import os
import subprocess
import sys

import pytest

from tff_fair.runtime import process_status

SELF = os.getpid()


def test_memory_grows_with_what_a_process_holds():
  before = process_status.memory_bytes(SELF)
  held = bytearray(os.urandom(2**26))
  assert process_status.memory_bytes(SELF) >= before + 2**25
  assert len(held) == 2**26


def test_a_thread_and_a_socket_count():
  program = """
import socket, sys, threading
held = socket.socket() if sys.argv[1] == "more" else None
if held:
  threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
  found = {}
  for kind in ("less", "more"):
    with subprocess.Popen(
      [sys.executable, "-c", program, kind],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
    ) as process:
      assert process.stdout.readline() == b"ready\n"
      found[kind] = [
        process_status.num_threads(process.pid),
        process_status.num_sockets(process.pid),
      ]
      process.stdin.close()
  assert found["more"] == [number + 1 for number in found["less"]]


def test_processor_time_is_that_of_the_kernel():
  times = os.times()
  found = process_status.cpu_seconds(SELF)
  assert found == pytest.approx(times.user + times.system, abs=0.1)


def test_a_process_that_has_ended_has_nothing():
  process = subprocess.Popen([sys.executable, "-c", ""])
  process.wait()
  for tell in (
    process_status.memory_bytes,
    process_status.num_threads,
    process_status.num_sockets,
    process_status.cpu_seconds,
  ):
    assert tell(process.pid) == 0
