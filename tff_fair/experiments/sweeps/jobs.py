"""Defines jobs and the interface of executors, and carries out a job."""

import abc
import contextlib
import io
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from tasks import DataError
from tff_fair import declared, escaping
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec.run_spec import RunSpec

# The exit status of a run that ends because of a user's mistake.
USER_ERROR = 2
# Statuses of jobs without an exit status; unlike other negative statuses, they
# do not stand for signals.
LOST = -1000  # The job ended without a status, perhaps because its node failed.
FREED = -1001  # Another program used the folder, and has ended.


class Job(NamedTuple):
  """A training run for an executor to start.

  `train` and `describe` must be in modules that the run's process can import.
  """

  name: str
  spec: RunSpec
  path: pathlib.Path
  log: pathlib.Path
  train: Callable[[RunSpec, pathlib.Path], object]
  describe: Callable[[Exception], str] = str
  options: Mapping[str, object] | None = None

  def note(self, text: str) -> None:
    """Appends a line to the run's log."""
    with self.log.open("a", encoding="utf-8") as file:
      file.write(f"{text}\n")


class JobEnd(NamedTuple):
  """The end of a job's run: its status and its duration."""

  job: Job
  # The process's exit status, or minus the number of the signal that killed it,
  # or LOST, or FREED.
  status: int
  seconds: float

  @property
  def is_cut_off(self) -> bool:
    """Whether the run was ended from outside, so that it may resume."""
    # Shells report a signal as 128 plus its number.
    return self.status < 0 or self.status > 128

  @property
  def description(self) -> str:
    """How an unsuccessful run ended, in words."""
    if self.status == LOST:
      return "its job ended without a result"
    if self.status < 0:
      return f"killed by signal {-self.status}"
    return f"status {self.status}"


class StartedRun(Protocol):
  """A run that an executor has started."""

  def poll(self) -> int | None:
    """Returns the run's status, see `JobEnd`; None before its end."""

  def stop(self) -> None:
    """Asks the run to save its rounds and end, without waiting for its end."""

  def kill(self) -> None:
    """Ends the run at once."""


class Executor(abc.ABC):
  """Carries out runs; `str` returns the executor's name and options."""

  jobs: int | None = None  # The most runs at a time; None is any number.
  # The most restarts of a cut-off run that saves no further round.
  restarts = 0
  is_shared = False  # Whether runs may outlive the sweep, on other hosts.
  poll_interval_seconds = 0.05  # The time between two checks for ended runs.
  query_interval_seconds = 0.0  # The least time between queries of a cluster.
  stop_timeout_seconds = math.inf  # The time for runs to save and end.
  _last_query_time = 0.0

  @abc.abstractmethod
  def session(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager in which runs can be started."""

  def has_room(self, num_running: int) -> bool:
    """Returns whether another run may start."""
    return self.jobs is None or num_running < self.jobs

  @abc.abstractmethod
  def start(self, job: Job) -> StartedRun:
    """Starts a job's run."""

  def start_query_if_due(self) -> bool:
    """Returns whether to query the cluster again; if so, notes the time."""
    now = time.monotonic()
    if now - self._last_query_time < self.query_interval_seconds:
      return False
    self._last_query_time = now
    return True


def write_output_to(log: str | os.PathLike[str]) -> None:
  """Makes this process append its output to a file, in UTF-8."""
  descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for stream in (sys.stdout, sys.stderr):
    os.dup2(descriptor, stream.fileno())
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(encoding="utf-8")
  os.close(descriptor)


def run(job: Job) -> int:
  """Carries out a job in this process; returns the exit status for the process.

  Users' mistakes and interruptions are printed to stderr.
  """
  try:
    with (
      interruption.raise_on_signal(owns_process=True),
      interruption.exit_on_signal(),
    ):
      job.train(job.spec, job.path)
  except (FieldError, RunError, DataError) as error:
    text = " ".join(job.describe(error).split())
    print(escaping.line(text), file=sys.stderr)
    return USER_ERROR
  except interruption.Interrupted as interrupted:
    print(f"Interrupted. {interrupted.advice}".rstrip(), file=sys.stderr)
    return 128 + interrupted.signal_number  # The convention of shells.
  return 0


def module_variables() -> dict[str, str]:
  """Returns environment variables that let processes find the same modules."""
  return {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}


def option_error(name: str, value: object, problem: str) -> FieldError:
  """Returns a one-line error about an executor's option."""
  return FieldError(
    "executor_option",
    " ".join(problem.split()),
    value=f"{name}={declared.as_text(value)}",
  )
