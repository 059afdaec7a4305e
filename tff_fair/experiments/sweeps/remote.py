"""Carries out a run on this host for a sweep on another host.

A job of a cluster calls `run`. The run gets its own process, since it needs a
main thread, and TensorFlow keeps memory until its process ends. The process
receives the run through a pipe. If the pipe closes, the run saves its rounds
and ends. So the run ends with the job that started it, even if the cluster
kills that job.
"""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import NoReturn

from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import jobs

_PROGRAM = "tff_fair.experiments.sweeps.remote"
_POLL_INTERVAL_SECONDS = 0.2
# Lets a worker with several threads carry out one run at a time, so that the
# memory of several runs does not add up.
_run_lock = threading.Lock()
_processes: dict[str, subprocess.Popen[bytes]] = {}
_stopped: set[str] = set()


def run(key: str, job: bytes, log: str, folder: str) -> int:
  """Carries out a run in a process in `folder`; returns a status of `JobEnd`.

  `key` names the run for `stop` and `kill`; `job` is pickled.
  """
  if not os.path.isdir(folder):
    raise RunError(
      f"{folder}: {socket.gethostname()} has no such folder; the hosts of a "
      "sweep need a file system that they share."
    )
  with _run_lock:
    if key in _stopped:
      return 128 + signal.SIGTERM  # Stopped before it began.
    process = subprocess.Popen(
      [sys.executable, "-m", _PROGRAM],
      stdin=subprocess.PIPE,
      cwd=folder,
      env={**os.environ, **jobs.module_variables()},
      start_new_session=True,
    )
    _processes[key] = process
    try:
      # submitit may raise any exception here when a job reaches its time limit.
      with contextlib.suppress(Exception):
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(log) + job)
        process.stdin.flush()
        if key in _stopped:
          stop(key)
        _wait(process)
    finally:
      stop(key)
      process.wait()
      del _processes[key]
  return process.returncode


def run_until_signal(key: str, job: bytes, log: str, folder: str) -> int:
  """Calls `run`; on SIGTERM, the run saves its rounds and ends."""
  signal.signal(signal.SIGTERM, lambda *_: stop(key))
  return run(key, job, log, folder)


def stop(key: str) -> None:
  """Asks the run called `key`, which this process started, to save and end."""
  _stopped.add(key)
  process = _processes.get(key)
  if process is not None and process.stdin is not None:
    with contextlib.suppress(OSError):  # The process may have ended.
      process.stdin.close()


def kill(key: str) -> None:
  """Kills the run called `key`, which this process started."""
  _stopped.add(key)
  if (process := _processes.get(key)) is not None:
    process.kill()


def _wait(process: subprocess.Popen[bytes]) -> None:
  while process.poll() is None:
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(_POLL_INTERVAL_SECONDS)
    interruption.check()


_STDIN = 0
_SECONDS_UNTIL_SIGNALLED = 0.5


def main() -> NoReturn:
  """Carries out the job on standard input, in the program that `run` starts.

  The input is the pickled path of the log, then the pickled job.
  """
  jobs.write_output_to(pickle.load(sys.stdin.buffer))
  # Slurm sends SIGUSR2 to all processes of a job at its time limit. The signal
  # would kill this process, but closing the pipe ends it in an orderly way.
  signal.signal(signal.SIGUSR2, signal.SIG_IGN)
  job = pickle.load(sys.stdin.buffer)
  threading.Thread(target=_exit_with_parent, daemon=True).start()
  sys.exit(jobs.run(job))


def _exit_with_parent() -> None:
  while os.read(_STDIN, 1):
    pass
  # A cluster may signal all processes of a job at once. Wait for its signal: if
  # it came after `request_exit`, it would kill this process as it saves rounds.
  time.sleep(_SECONDS_UNTIL_SIGNALLED)
  interruption.request_exit()


if __name__ == "__main__":
  main()
