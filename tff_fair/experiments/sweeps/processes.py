"""Runs side by side, each in a process of its own that is forked warm.

TensorFlow Federated takes seconds to import. A server process imports it once,
computes nothing, and forks for each run (measured on two cores: 9 s instead of
18 s to the end of a run's first round). A fork without anything computed
before it is safe: TensorFlow and gRPC start their threads at the first use.
"""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import types
from collections.abc import (
  Callable,
  Generator,
  Iterator,
  Sequence,
)
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from tasks import DataError
from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError, SpecError
from tff_fair.experiments.spec import RunSpec

_PRELOADED = "tff_fair.experiments.sweeps.warm"
# The exit status of a run that a mistake of the user ends.
_MISTAKE = 2
# How often a program that waits looks whether a signal has come.
_SECONDS_PER_LOOK = 0.2
_context = multiprocessing.get_context("forkserver")


class Job(NamedTuple):
  """A training run to be started.

  Functions come from modules that the process of the run can import.

  Attributes:
    name: Its name.
    spec: All that decides its results.
    path: Its folder.
    log: The file that takes its output.
    workers: The hosts that compute it; none means this one.
    train: Trains a run: takes its spec, folder and workers.
    describe: Returns the line that tells of a mistake of the user.
  """

  name: str
  spec: RunSpec
  path: pathlib.Path
  log: pathlib.Path
  workers: Sequence[str]
  train: Callable[[RunSpec, pathlib.Path, Sequence[str]], object]
  describe: Callable[[Exception], str] = str


class Ended(NamedTuple):
  """A run that has ended.

  Attributes:
    job: The run.
    status: The exit status of its process; minus the signal that killed it.
    seconds: How long it took.
  """

  job: Job
  status: int
  seconds: float


def prepare() -> None:
  """Starts the server, which imports while this program goes on."""
  _context.set_forkserver_preload([_PRELOADED])
  with _interruption_ignored(), _modules_found_as_here():
    forkserver.ensure_running()


def run_all(
  next_job: Callable[[], Job | None], num_parallel: int
) -> Generator[Ended, None, None]:
  """Runs jobs as they are handed out, up to so many at once.

  Args:
    next_job: Returns the next job; None if there is none until a run has ended,
      or none at all.
    num_parallel: How many may run at once.

  Yields:
    The runs as they end.

  Raises:
    Interrupted: If a signal came; the runs have then saved their rounds. They
      save them and end also if somebody kills this program.
  """
  running: dict[BaseProcess, tuple[Job, float]] = {}
  try:
    while True:
      while len(running) < num_parallel and (job := next_job()) is not None:
        started = _context.Process(target=_train, args=(job,), name=job.name)
        with interruption.deferred(), _without_main():
          started.start()
          running[started] = (job, time.monotonic())
      if not running:
        return
      sentinels = [process.sentinel for process in running]
      while not connection.wait(sentinels, timeout=_SECONDS_PER_LOOK):
        interruption.check()
      for process in list(running):
        if process.exitcode is not None:
          job, start = running.pop(process)
          yield Ended(job, process.exitcode, time.monotonic() - start)
  finally:
    _stop(list(running))


@contextlib.contextmanager
def _interruption_ignored() -> Iterator[None]:
  """Ctrl-C is for this program; the server inherits that it is ignored."""
  # Only the main thread may handle signals.
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _modules_found_as_here() -> Iterator[None]:
  """Has the server look for modules where this program does.

  By itself it would look into the working directory first, and take a `tasks`
  that the user has there for ours.
  """
  variables = {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "PYTHONSAFEPATH": "1",
  }
  before = {name: os.environ.get(name) for name in variables}
  os.environ.update(variables)
  try:
    yield
  finally:
    for name, value in before.items():
      if value is None:
        del os.environ[name]
      else:
        os.environ[name] = value


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
  """Keeps a new process from importing the user's script, as Python would.

  A script that starts a sweep at its top level would start it again there.
  """
  name = "__main__"
  main = sys.modules[name]
  sys.modules[name] = types.ModuleType(name)
  try:
    yield
  finally:
    sys.modules[name] = main


def _stop(processes: Sequence[BaseProcess]) -> None:
  """Asks processes to save their rounds and end; twice asked, kills them."""
  try:
    for process in processes:
      process.terminate()
    for process in processes:
      process.join()
  except BaseException:
    for process in processes:
      process.kill()
    raise


def _train(job: Job) -> None:
  """Carries out a job, in the process that is there for it."""
  os.setsid()  # Ctrl-C reaches the sweep alone, which asks its runs to end.
  threading.Thread(target=_end_with_sweep, daemon=True).start()
  log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for stream in (sys.stdout, sys.stderr):
    os.dup2(log, stream.fileno())
  os.close(log)
  status = 0
  try:
    with interruption.raised(owns_process=True), interruption.at_once():
      job.train(job.spec, job.path, job.workers)
  except (SpecError, RunError, DataError) as error:
    print(" ".join(job.describe(error).split()), file=sys.stderr)
    status = _MISTAKE
  except interruption.Interrupted as interrupted:
    print(f"Interrupted. {interrupted.advice}".rstrip(), file=sys.stderr)
    status = 128 + interrupted.signal_number  # As shells know it.
  sys.exit(status)


def _end_with_sweep() -> None:
  sweep = multiprocessing.parent_process()
  if sweep is not None:
    connection.wait([sweep.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
