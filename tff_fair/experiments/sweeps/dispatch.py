"""Hands runs to an executor, as many at once as it takes, until all have ended.

An executor is where runs are carried out: on this machine, as jobs of a
cluster, or on the workers of one.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps.jobs import FREED, Ended, Job

# How often a program that waits looks whether a signal has come.
_SECONDS_PER_CHECK = 0.2


class StartedRun(Protocol):
  """A run that an executor has started."""

  def poll(self) -> int | None:
    """Returns how it ended, as `Ended.status` has it; None before its end."""

  def stop(self) -> None:
    """Asks it to save its rounds and end; does not wait for it."""

  def kill(self) -> None:
    """Ends it at once."""


class Executor(Protocol):
  """Carries out runs. Its text names it and its options.

  Attributes:
    restarts: How often a run that was cut off goes on by itself, without a
      further round saved in between.
    is_shared: Whether runs may outlive the sweep, on other hosts.
    seconds_per_look: How often to ask runs whether they have ended.
    seconds_to_stop: How long runs that are to end may take to save.
  """

  @property
  def restarts(self) -> int: ...  # noqa: D102

  @property
  def is_shared(self) -> bool: ...  # noqa: D102

  @property
  def seconds_per_look(self) -> float: ...  # noqa: D102

  @property
  def seconds_to_stop(self) -> float: ...  # noqa: D102

  def check(self) -> None:
    """Checks the options, without a run.

    Raises:
      FieldError: If one is not valid, or a package is missing.
    """

  def opened(self) -> contextlib.AbstractContextManager[None]:
    """Returns what surrounds all runs."""

  def has_room(self, num_running: int) -> bool:
    """Returns whether another run may start."""

  def start(self, job: Job) -> StartedRun:
    """Starts a run.

    Raises:
      RunError: If the cluster does not take it.
      FieldError: If the cluster is gone.
    """


def option_error(name: str, value: object, problem: str) -> FieldError:
  """Returns the error of an option, in one line."""
  return FieldError(
    "executor_option",
    " ".join(problem.split()),
    value=f"{name}={declared.as_text(value)}",
  )


class Elsewhere:
  """A run that another program has in hand; it is waited for."""

  def __init__(self, job: Job) -> None:
    self._folder = RunFolder(job.path)
    self._is_stopped = False

  def poll(self) -> int | None:
    """Returns 0 once the run is finished, `FREED` if it stops before."""
    if self._folder.is_at_work and not self._is_stopped:
      return None
    return 0 if self._folder.is_finished else FREED

  def stop(self) -> None:
    """Waits no longer; the run belongs to the other program."""
    self._is_stopped = True

  kill = stop


def run_all(
  next_job: Callable[[], Job | None],
  executor: Executor,
  start: Callable[[Job], StartedRun] | None = None,
) -> Generator[Ended, None, None]:
  """Runs jobs as they are handed out.

  Args:
    next_job: Returns the next job; None if there is none until a run has ended,
      or none at all.
    executor: Carries them out.
    start: Starts a run, by default as the executor does.

  Yields:
    The runs as they end.

  Raises:
    Interrupted: If a signal came; the runs have then saved their rounds. They
      save them and end also if this program is killed, unless they are
      jobs of a cluster.
  """
  start = start or executor.start
  running: dict[StartedRun, tuple[Job, float]] = {}
  try:
    has_more = True
    while has_more or running:
      while has_more and executor.has_room(len(running)):
        job = next_job()
        has_more = job is not None
        if job is not None:
          with interruption.deferred():
            running[start(job)] = (job, time.monotonic())
      if running or has_more:
        _pause(executor.seconds_per_look)
      for run in list(running):
        if (status := run.poll()) is not None:
          job, begin = running.pop(run)
          has_more = True  # There may be a job again.
          yield Ended(job, status, time.monotonic() - begin)
  finally:
    _stop(list(running), executor)


def _pause(seconds: float) -> None:
  end = time.monotonic() + seconds
  interruption.check()
  while (left := end - time.monotonic()) > 0:
    time.sleep(min(left, _SECONDS_PER_CHECK))
    interruption.check()


def _stop(runs: Sequence[StartedRun], executor: Executor) -> None:
  """Asks runs to save their rounds and end; twice asked, kills them."""
  try:
    for run in runs:
      run.stop()
    end = time.monotonic() + executor.seconds_to_stop
    waiting = list(runs)
    while waiting and time.monotonic() < end:
      time.sleep(min(executor.seconds_per_look, _SECONDS_PER_CHECK))
      waiting = [run for run in waiting if run.poll() is None]
  except BaseException:
    for run in runs:
      run.kill()
    raise
