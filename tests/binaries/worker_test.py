"""Tests of the program that runs a worker for others."""

import contextlib
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from binaries import worker
from tests import source_tree, waiting
from tests.binaries import in_process
from tff_fair import runtime

COMMAND = [sys.executable, "-m", "binaries.worker"]
# Starts the program, passes its address on, and ends when it is told to.
PARENT = """
import subprocess, sys
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(program.pid, program.stdout.readline(), flush=True)
sys.stdin.read()
"""


def start(*command):
  return subprocess.Popen(
    command,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=source_tree.ROOT,
  )


def children(pid):
  return [
    int(stat.parent.name)
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat")
    if parent_of(stat) == pid
  ]


def parent_of(stat):
  with contextlib.suppress(OSError):  # It has just ended.
    return int(stat.read_text().rpartition(") ")[2].split()[1])
  return None


def is_gone(pid):
  return not pathlib.Path(f"/proc/{pid}").exists()


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def total(values):
  return tff.federated_sum(values)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_serves_programs_until_it_ends(number):
  with start(*COMMAND, "--memory_limit=4G") as program:
    address = program.stdout.readline().strip()
    assert address.startswith("127.0.0.1:")
    # It leaves the memory to the worker.
    mapped = pathlib.Path(f"/proc/{program.pid}/maps").read_text()
    assert "libtensorflow" not in mapped
    runtime.use_workers([address])
    assert total([1.0, 2.0]) == 3.0
    runtime.use_local()
    (child,) = children(program.pid)
    program.send_signal(number)
    outcome = program.communicate(timeout=20)
  if number == signal.SIGTERM:
    assert program.returncode == 128 + number
    assert outcome == ("", "Interrupted.\n")
  waiting.until(lambda: is_gone(child), 20.0)


def test_it_ends_with_its_parent():
  with start(sys.executable, "-c", PARENT, *COMMAND) as parent:
    pid, address = parent.stdout.readline().split()
    (child,) = children(int(pid))
    assert address.startswith("127.0.0.1:")
    parent.kill()
  waiting.until(lambda: is_gone(int(pid)) and is_gone(child), 20.0)


@pytest.mark.parametrize(
  ("words", "beginning"),
  [
    ("--memory_limit=much", "worker: --memory_limit=much: expected a number"),
    ("--memory_limit=0", "worker: --memory_limit=0: expected a number"),
    ("--memory_limit=1M", "worker: --memory_limit: a worker that has done not"),
    (f"--memory_limit={'9' * 300}T", "worker: --memory_limit=999"),
    ("--host=", "worker: --host: is empty"),
    ("--host=a..b", "worker: --host='a..b': is no name of a host: "),
    (f"--host={'é' * 300}", "worker: --host='"),
    ("--host=no.such.host.invalid", "worker: --host: cannot listen there: "),
    ("--port=70000", "worker: --port=70000: 70000 is not"),
    ("workers", "worker: 'workers': every argument must be a flag"),
  ],
)
def test_bad_input_is_one_line(words, beginning):
  refusal = in_process.run(worker, *words.split()).refusal
  assert refusal.startswith(beginning)


@pytest.mark.parametrize(
  ("text", "num_bytes"),
  [
    ("4G", 4 * 2**30),
    ("512m", 512 * 2**20),
    ("1.5GiB", 3 * 2**29),
    ("1048576", 2**20),
  ],
)
def test_sizes(text, num_bytes):
  with in_process.given(f"--memory_limit={text}", namespace=worker._FLAGS):
    assert worker._memory_limit() == num_bytes
