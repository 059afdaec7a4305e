"""Runs side by side, each in a process of its own that is forked warm.

TensorFlow Federated takes seconds to import. A server process imports it once,
computes nothing, and forks for each run (measured on two cores: 9 s instead of
18 s to the end of a run's first round). A fork without anything computed
before it is safe: TensorFlow and gRPC start their threads at the first use.
"""

import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing import connection, forkserver
from typing import Any, NamedTuple

from binaries import train
from tff_fair.experiments import interruption

# Imported by the server: all that a run needs, and is slow to import.
_PRELOADED = (
  *(
    "binaries.train",
    "tff_fair.experiments.training.training_run",
    "matplotlib.figure",
  ),
  *("sklearn.datasets", "tasks.registry", "tff_fair.algorithms"),
)
_context = multiprocessing.get_context("forkserver")


class Job(NamedTuple):
  """A training run to be started.

  Attributes:
    name: What it is called.
    arguments: Its command line.
    log: The file that takes its output.
  """

  name: str
  arguments: Sequence[str]
  log: pathlib.Path


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
  _context.set_forkserver_preload(list(_PRELOADED))
  # Ctrl-C is for this program; the server inherits that it is ignored.
  handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    forkserver.ensure_running()
  finally:
    signal.signal(signal.SIGINT, handler)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
  """Returns what a function returns in a warm process, or raises its error.

  Args:
    function: A function of a module.
    *arguments: Its arguments, which can be pickled, like its result.
  """
  receiver, sender = _context.Pipe(duplex=False)
  process = _context.Process(
    target=_answer, args=(sender, function, arguments), daemon=True
  )
  process.start()
  sender.close()
  try:
    result, error = receiver.recv()
  except EOFError as closed:
    process.join()
    raise RuntimeError(
      f"The process of {function.__name__} ended with {process.exitcode}."
    ) from closed
  except BaseException:
    process.kill()
    raise
  if error is not None:
    raise error
  return result


def run_all(
  jobs: Iterable[Job], num_parallel: int
) -> Generator[Ended, None, None]:
  """Runs jobs, up to so many at once.

  Yields:
    The runs as they end.

  Raises:
    Interrupted: If a signal came; the runs have then saved what they had.
      Also if this program is killed do they save it and end.
  """
  waiting = list(reversed(list(jobs)))
  running: dict[Any, tuple[Job, float]] = {}
  try:
    while waiting or running:
      while waiting and len(running) < num_parallel:
        job = waiting.pop()
        process = _context.Process(target=_train, args=(job,), name=job.name)
        with interruption.deferred():
          process.start()
          running[process] = (job, time.monotonic())
      connection.wait([process.sentinel for process in running])
      for process in list(running):
        if process.exitcode is not None:
          job, start = running.pop(process)
          yield Ended(job, process.exitcode, time.monotonic() - start)
  finally:
    _stop(list(running))


def _stop(processes: Sequence[Any]) -> None:
  """Asks processes to save what they have and waits; twice asked, kills."""
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
  os.setsid()  # Ctrl-C reaches the sweep alone, which asks its runs to end.
  threading.Thread(target=_end_with_sweep, daemon=True).start()
  log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for stream in (sys.stdout, sys.stderr):
    os.dup2(log, stream.fileno())
  os.close(log)
  sys.argv = [str(train.__file__), *job.arguments]
  train.run()


def _end_with_sweep() -> None:
  sweep = multiprocessing.parent_process()
  if sweep is not None:
    connection.wait([sweep.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _answer(
  sender: Any, function: Callable[..., Any], arguments: Sequence[Any]
) -> None:
  try:
    sender.send((function(*arguments), None))
  except Exception as error:
    sender.send((None, error))
