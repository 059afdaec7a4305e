"""Starts real programs, ends them in all ways, and looks for their workers.

Each program carries a mark in its environment, which its workers inherit, so
that workers of other programs on the machine are never counted.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import uuid
from typing import NamedTuple

import pytest

from tests import marks, source_tree, waiting

pytestmark = pytest.mark.program

TIMEOUT = 120.0  # Seconds; far more than any of the programs needs.

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
IN_A_ROUND = "print('READY', os.getpid(), flush=True)\nendless([1.0])\n"
INTERRUPTED = f"""
try:
{textwrap.indent(IN_A_ROUND, "  ")}
finally:
  print('HANDLED', flush=True)
"""
HANDLED = f"""
def handle(*_):
  print('HANDLED', flush=True)
  sys.exit(7)
signal.signal(signal.SIGTERM, handle)
{IN_A_ROUND}
"""
# The end of a forked child is not the end of the program.
FORK = """
runtime.use_local()
child = os.fork()
if child == 0:
  atexit._run_exitfuncs()
  os._exit(0)
os.waitpid(child, 0)
check(add_one([1.0]) == 2.0)
print('DONE')
sys.exit(3)
"""


class End(NamedTuple):
  """A program and its expected end; a negative status means a signal."""

  code: str
  status: int
  stdout: str
  tracebacks: tuple[str, ...] = ()
  sent: signal.Signals | None = None

  def exact(self) -> "End":
    code = self.code.replace("use_local()", "use_local(exact=True)")
    return self._replace(code=code)


INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
ENDS = {
  "piped": End(START + "print('DONE')", 0, "DONE"),
  "exception": End(
    START + "raise ValueError('on purpose')",
    1,
    "",
    ("ValueError: on purpose",),
  ),
  "interrupt": End(
    START + INTERRUPTED, -INT, "HANDLED", ("KeyboardInterrupt",), INT
  ),
  "terminate": End(START + IN_A_ROUND, -TERM, "", sent=TERM),
  "terminate handled": End(START + HANDLED, 7, "HANDLED", sent=TERM),
  "kill": End(START + IN_A_ROUND, -KILL, "", sent=KILL),
}
ENDS |= {f"exact {name}": end.exact() for name, end in ENDS.items()}
ENDS |= {
  "nothing computed": End(PROLOGUE + "print('DONE')", 0, "DONE"),
  "fork": End(PROLOGUE + FORK, 3, "DONE"),
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


def marked_workers(mark: str) -> list[int]:
  """Returns the pids of the live workers of the programs with a mark."""
  commands = marks.commands(mark).items()
  return [pid for pid, command in commands if "worker_binary" in command]


def cpu_ticks(pid: int) -> int:
  fields = pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1].split()
  return int(fields[11]) + int(fields[12])


def wait_until_in_a_round(program: subprocess.Popen[str], mark: str) -> None:
  assert program.stdout is not None
  lines = iter(program.stdout.readline, "")
  ready = next((line for line in lines if line.startswith("READY")), "")
  assert ready, "ended too early"
  # The program's process may be a fork of the warm Python.
  pid = next(iter(marked_workers(mark)), int(ready.split()[1]))
  ticks = cpu_ticks(pid)
  waiting.until(lambda: cpu_ticks(pid) > ticks + 20, TIMEOUT)


def kill(program: subprocess.Popen[str], mark: str) -> None:
  """Kills a program, its children and its workers, if they still run."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(program.pid, signal.SIGKILL)
  for pid in marked_workers(mark):
    os.kill(pid, signal.SIGKILL)


def run(
  command: list[str], sent: signal.Signals | None = None
) -> tuple[int, str, str]:
  """Runs a program to its end; returns its status, stdout and stderr.

  Sends the signal `sent`, if any, in the middle of a round. Fails if a worker
  outlives the program.
  """
  mark = uuid.uuid4().hex
  with tempfile.TemporaryFile("w+") as stderr:
    program = subprocess.Popen(
      command,
      stdout=subprocess.PIPE,
      stderr=stderr,
      text=True,
      cwd=source_tree.ROOT,
      env={**source_tree.environment(), marks.VARIABLE: mark},
      start_new_session=True,  # Like a terminal's job, which Ctrl-C signals.
    )
    watchdog = threading.Timer(TIMEOUT, kill, (program, mark))
    watchdog.start()
    try:
      if sent is not None:
        wait_until_in_a_round(program, mark)
        os.killpg(program.pid, sent)
      status = program.wait()
      waiting.until(lambda: not marked_workers(mark), seconds=10.0)
      # Returns when no process holds the other end of the pipe any more.
      stdout, _ = program.communicate()
    finally:
      watchdog.cancel()
      kill(program, mark)
    stderr.seek(0)
    return status, stdout, stderr.read()


# However the program ends, workers of the exact context end in the same way.
EXACT_IN_SHORT_RUNS = ("exact terminate", "exact kill")


def marked(name):
  is_long = name.startswith("exact") and name not in EXACT_IN_SHORT_RUNS
  return pytest.param(name, marks=pytest.mark.long) if is_long else name


@pytest.mark.parametrize("name", list(map(marked, ENDS)))
def test_a_program_ends_with_its_status_and_leaves_no_worker(name, warm_python):
  end = ENDS[name]
  # The piped program imports TensorFlow Federated itself.
  python = sys.executable if name == "piped" else warm_python
  command = [python, "-c", end.code]
  if name.endswith("piped"):
    command = ["sh", "-c", '"$0" "$@" | cat', *command]
  status, stdout, stderr = run(command, end.sent)
  assert status == end.status, stderr
  assert end.stdout in stdout
  assert "FAILED" not in stdout
  if not name.startswith("exact"):  # There are no other errors.
    errors = re.findall(r"^(?:\w+Error|KeyboardInterrupt)\b.*", stderr, re.M)
    assert errors == [*end.tracebacks]
    assert stderr.count("Traceback") == len(end.tracebacks)
    assert "Exception" not in stderr


@pytest.mark.long  # Every run of these tests shows it, too.
def test_a_run_of_pytest_ends(tmp_path):
  test = tmp_path / "round_test.py"
  test.write_text(PYTEST_FILE)
  command = [sys.executable, "-m", "pytest", "-q", str(test)]
  status, stdout, _ = run(command)
  assert (status, "1 passed" in stdout) == (0, True)
