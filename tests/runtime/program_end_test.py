"""Starts real programs, ends them in all ways, and looks for their workers.

Each program carries a mark in its environment, which its workers inherit, so
that workers of other programs on the machine are never counted.
"""

import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests import source_tree

pytestmark = pytest.mark.program

TIMEOUT = 120.0  # Seconds; far more than any of the programs needs.
MARK = "TFF_FAIR_TEST_PROGRAM"

PROLOGUE = """
import atexit, os, signal, sys, threading, time
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tff_fair import runtime

def federated_sum(work):
  @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
  def compute(values):
    return tff.federated_sum(tff.federated_map(work, values))
  return compute

add_one = federated_sum(tff.tensorflow.computation(lambda x: x + 1, np.float32))

def spin(x):  # For minutes.
  still = lambda i, x: i < 10**9
  return tf.while_loop(still, lambda i, x: (i + 1, tf.sin(x)), (0, x))[1]

endless = federated_sum(tff.tensorflow.computation(spin, np.float32))

def check(condition):
  if not condition:
    print("FAILED", flush=True)
"""
START = PROLOGUE + "runtime.use_local()\ncheck(add_one([1.0, 2.0]) == 5.0)\n"
EXACT = START.replace("use_local()", "use_local(exact=True)")
IN_A_ROUND = "print('READY', os.getpid(), flush=True)\nendless([1.0])\n"

HANDLE = """
def handle(*_):
  print('HANDLED', flush=True)
  sys.exit(7)
signal.signal(signal.SIGTERM, handle)
"""


def programs(start: str) -> dict[str, str]:
  """Returns programs that end in different ways, once they have started."""
  return {
    "piped": start + "print('DONE')",
    "exception": start + "raise ValueError('on purpose')",
    "interrupt": start
    + f"""
try:
{textwrap.indent(IN_A_ROUND, "  ")}
finally:
  print('HANDLED', flush=True)
""",
    "terminate": start + IN_A_ROUND,
    "terminate handled": start + HANDLE + IN_A_ROUND,
    "kill": start + IN_A_ROUND,
  }


PROGRAMS = {
  **programs(START),
  **{f"exact {name}": text for name, text in programs(EXACT).items()},
  "nothing computed": PROLOGUE + "print('DONE')",
  # The end of a forked child is not the end of the program.
  "fork": PROLOGUE
  + """
runtime.use_local()
child = os.fork()
if child == 0:
  atexit._run_exitfuncs()
  os._exit(0)
os.waitpid(child, 0)
check(add_one([1.0]) == 2.0)
print('DONE')
sys.exit(3)
""",
}

SIGNALS = {
  "interrupt": signal.SIGINT,
  "terminate": signal.SIGTERM,
  "terminate handled": signal.SIGTERM,
  "kill": signal.SIGKILL,
}

PYTEST_FILE = (
  "import pytest\n"
  + PROLOGUE
  + """
@pytest.fixture(scope="session", autouse=True)
def local_execution():
  runtime.use_local()

def test_round():
  assert add_one([1.0, 2.0]) == 5.0
"""
)


class Outcome(NamedTuple):
  status: int  # Minus the signal, if one ended the program.
  stdout: str
  stderr: str
  workers_in_the_end: int  # Still there some seconds after the end.


def marked_workers(mark: str) -> list[int]:
  """Returns the pids of the live workers of the programs with a mark."""
  pids = []
  for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
      environment = (process / "environ").read_bytes().split(b"\0")
      command = (process / "cmdline").read_bytes()
    except OSError:  # Has ended, or is another user's.
      continue
    if f"{MARK}={mark}".encode() in environment and b"worker_binary" in command:
      pids.append(int(process.name))
  return pids


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
  deadline = time.monotonic() + seconds
  while not condition():
    if time.monotonic() > deadline:
      return False
    time.sleep(0.02)
  return True


def cpu_ticks(pid: int) -> int:
  fields = pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1].split()
  return int(fields[11]) + int(fields[12])


def wait_until_in_a_round(program: subprocess.Popen[str], mark: str) -> None:
  assert program.stdout is not None
  lines = iter(program.stdout.readline, "")
  ready = next((line for line in lines if line.startswith("READY")), "")
  assert ready, "ended too early"
  # The program's process may be a fork, of a Python that is warm.
  pid = next(iter(marked_workers(mark)), int(ready.split()[1]))
  ticks = cpu_ticks(pid)
  assert wait_until(lambda: cpu_ticks(pid) > ticks + 20, TIMEOUT)


def kill(program: subprocess.Popen[str], mark: str) -> None:
  """Ends what is left of a program, its children and its workers."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(program.pid, signal.SIGKILL)
  for pid in marked_workers(mark):
    os.kill(pid, signal.SIGKILL)


def run(command: list[str], sent: signal.Signals | None = None) -> Outcome:
  """Runs a program to its end; sends it a signal in the middle of a round."""
  mark = uuid.uuid4().hex
  with tempfile.TemporaryFile("w+") as stderr:
    program = subprocess.Popen(
      command,
      stdout=subprocess.PIPE,
      stderr=stderr,
      text=True,
      cwd=source_tree.ROOT,
      env={**os.environ, MARK: mark, "PYTHONPATH": str(source_tree.ROOT)},
      start_new_session=True,  # As a job of a terminal, which Ctrl-C signals.
    )
    watchdog = threading.Timer(TIMEOUT, kill, (program, mark))
    watchdog.start()
    try:
      if sent is not None:
        wait_until_in_a_round(program, mark)
        os.killpg(program.pid, sent)
      status = program.wait()
      wait_until(lambda: not marked_workers(mark), seconds=10.0)
      in_the_end = len(marked_workers(mark))
      # Returns when no process holds the other end of the pipe any more.
      stdout, _ = program.communicate()
    finally:
      watchdog.cancel()
      kill(program, mark)
    stderr.seek(0)
    return Outcome(status, stdout, stderr.read(), in_the_end)


# The program that imports TensorFlow Federated itself, beside pytest.
COLD = "piped"


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory, warm_python):
  """Runs a program by its name, once."""
  test = tmp_path_factory.mktemp("project") / "round_test.py"
  test.write_text(PYTEST_FILE)

  @functools.cache
  def outcome(name: str) -> Outcome:
    if name == "pytest":
      return run([sys.executable, "-m", "pytest", "-q", str(test)])
    python = sys.executable if name == COLD else warm_python
    command = [python, "-c", PROGRAMS[name]]
    if name.endswith("piped"):
      command = ["sh", "-c", '"$0" "$@" | cat', *command]
    return run(command, SIGNALS.get(name.removeprefix("exact ")))

  return outcome


ENDS = {
  "piped": (0, "DONE"),
  "exception": (1, ""),
  "interrupt": (-signal.SIGINT, "HANDLED"),
  "terminate": (-signal.SIGTERM, ""),
  "terminate handled": (7, "HANDLED"),
  "kill": (-signal.SIGKILL, ""),
}
ALL_ENDS = {
  **ENDS,
  **{f"exact {name}": end for name, end in ENDS.items()},
  "nothing computed": (0, "DONE"),
  "fork": (3, "DONE"),
  "pytest": (0, "1 passed"),
}


# Workers of the exact context end alike, whatever ends the program.
EXACT_IN_SHORT_RUNS = ("exact terminate", "exact kill")


def marked(name):
  is_exact = name.startswith("exact") and name not in EXACT_IN_SHORT_RUNS
  is_long = is_exact or name == "pytest"  # Which many tests here run in.
  return pytest.param(name, marks=pytest.mark.long) if is_long else name


@pytest.mark.parametrize("name", list(map(marked, ALL_ENDS)))
def test_a_program_ends_with_its_status_and_leaves_no_worker(outcome_of, name):
  outcome = outcome_of(name)
  status, output = ALL_ENDS[name]
  assert outcome.status == status, outcome.stderr
  assert output in outcome.stdout
  assert "FAILED" not in outcome.stdout
  assert outcome.workers_in_the_end == 0


@pytest.mark.parametrize(
  ("name", "tracebacks"),
  [
    ("piped", []),
    ("nothing computed", []),
    ("exception", ["ValueError: on purpose"]),
    ("fork", []),
    ("interrupt", ["KeyboardInterrupt"]),
    ("terminate handled", []),
  ],
)
def test_nothing_else_is_said_at_the_end(outcome_of, name, tracebacks):
  stderr = outcome_of(name).stderr
  assert re.findall(r"^(?:\w+Error|KeyboardInterrupt)\b.*", stderr, re.M) == (
    tracebacks
  )
  assert stderr.count("Traceback") == len(tracebacks)
  assert "Exception" not in stderr
