"""Creates a sweep's executor; starts, observes and restarts runs with it.

An executor carries out runs in processes on this machine, as jobs of a Slurm
cluster, or on the workers of a Dask cluster.
"""

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption, startup
from tff_fair.experiments.runs import checkpoints
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps.jobs import (
  FREED,
  USER_ERROR,
  Executor,
  Job,
  JobEnd,
  StartedRun,
  option_error,
)
from tff_fair.experiments.sweeps.processes import Processes
from tff_fair.files import parsing

# The interval at which a waiting program checks for signals.
_SECONDS_PER_CHECK = 0.2


class ExternalRun:
  """A run that another program trains; the sweep only waits for its end."""

  def __init__(self, job: Job) -> None:
    self._folder = RunFolder(job.path)
    self._is_stopped = False

  def poll(self) -> int | None:
    """Returns 0 if the run is finished, `FREED` if it ended early, else None.

    After `stop`, a run that still trains counts as ended.
    """
    if self._folder.is_in_use and not self._is_stopped:
      return None
    return 0 if self._folder.is_finished else FREED

  def stop(self) -> None:
    """Stops waiting; the run belongs to the other program."""
    self._is_stopped = True

  kill = stop


def run_all(
  next_job: Callable[[], Job | None],
  executor: Executor,
  start: Callable[[Job], StartedRun],
) -> Generator[JobEnd, None, None]:
  """Starts jobs as the executor has room for them; yields each run's end.

  If `next_job` returns None, it is called again only after a run has ended.
  """
  running: dict[StartedRun, tuple[Job, float]] = {}
  try:
    has_more = True
    while has_more or running:
      while has_more and executor.has_room(len(running)):
        job = next_job()
        has_more = job is not None
        if job is not None:
          with interruption.defer():
            running[start(job)] = (job, time.monotonic())
      if running or has_more:
        _pause(executor.poll_interval_seconds)
      for run in list(running):
        if (status := run.poll()) is not None:
          job, begin = running.pop(run)
          has_more = True  # The end of a run may make a new job available.
          yield JobEnd(job, status, time.monotonic() - begin)
  finally:
    _stop(list(running), executor)


def _pause(seconds: float) -> None:
  end = time.monotonic() + seconds
  interruption.check()
  while (left := end - time.monotonic()) > 0:
    time.sleep(min(left, _SECONDS_PER_CHECK))
    interruption.check()


def _stop(runs: Sequence[StartedRun], executor: Executor) -> None:
  """Asks runs to save and end; kills them if the wait is interrupted."""
  try:
    for run in runs:
      run.stop()
    end = time.monotonic() + executor.stop_timeout_seconds
    waiting = list(runs)
    while waiting and time.monotonic() < end:
      time.sleep(min(executor.poll_interval_seconds, _SECONDS_PER_CHECK))
      waiting = [run for run in waiting if run.poll() is None]
  except BaseException:
    for run in runs:
      run.kill()
    raise


# How long a network disk may take to show files that another host wrote.
_SYNC_TIMEOUT_SECONDS = 60.0
_POLL_INTERVAL_SECONDS = 0.5


class Restarts:
  """Decides whether runs resume that were cut off, for example by a time limit.

  A run fails if it is cut off more than `most` times without saving a further
  round.
  """

  def __init__(self, most: int) -> None:
    self._most = most
    # By a run's name: its last saved round, and its number of cut-offs since.
    self._known: dict[str, tuple[int, int]] = {}

  def reason(self, ended: JobEnd) -> str | None:
    """Returns a message on why the run resumes, or None if it does not resume.

    The message is empty if another program used the run's folder.
    """
    if ended.status == FREED:
      return ""
    if not ended.is_cut_off or not self._most:
      return None
    rounds = checkpoints.saved_rounds(RunFolder(ended.job.path).checkpoints)
    last = max(rounds, default=0)
    before, times = self._known.get(ended.job.name, (0, 0))
    times = times + 1 if last == before else 1
    self._known[ended.job.name] = (last, times)
    if times > self._most:
      return None
    return (
      f"cut off ({ended.description}); another job resumes after round {last} "
      f"({times} of {self._most})."
    )


def verify_end(ended: JobEnd) -> JobEnd:
  """Returns a run's end with the status that the files in its folder show.

  On a cluster, another job may have finished the run, or files may be missing.
  """
  folder = RunFolder(ended.job.path)
  if ended.status == 0:
    end = time.monotonic() + _SYNC_TIMEOUT_SECONDS
    while not (is_there := folder.is_finished or folder.is_pruned):
      if time.monotonic() > end:
        break
      interruption.check()
      time.sleep(_POLL_INTERVAL_SECONDS)
      with contextlib.suppress(OSError):
        os.listdir(folder.path)  # Makes a network disk refresh its cache.
    if is_there:
      return ended
    ended.job.note(
      f"{folder.path}: is not finished here, but its job reports that it is; "
      "the hosts of a sweep need a file system that they share."
    )
    return ended._replace(status=1)
  # Although this job failed, another one may have finished or resumed the run.
  if folder.is_finished:
    return ended._replace(status=0)
  if ended.status == USER_ERROR and folder.is_in_use:
    return ended._replace(status=FREED)
  return ended


LOCAL, SUBMITIT, DASK = NAMES = ("local", "submitit", "dask")
# An option of this library; all others are those of submitit and Dask.
_RESTARTS = "restarts"
_USUAL_RESTARTS = 3
# For each executor, the extra to install and the package that it imports.
_EXTRAS = {SUBMITIT: ("slurm", "submitit"), DASK: ("dask", "distributed")}


def create(
  name: str,
  options: Mapping[str, object],
  *,
  folder: pathlib.Path,
  jobs: int | None = None,
) -> Executor:
  """Returns the executor called `name`, after checks of its options."""
  declared.check_choice("executor", name, NAMES)
  if jobs is not None and jobs < 1:
    raise FieldError("jobs", "expected a positive integer.", value=jobs)
  values = {option: _value(option, v) for option, v in options.items()}
  if name == LOCAL:
    for option, value in values.items():
      raise option_error(
        option,
        value,
        "local has no options; jobs sets how many runs train at a time.",
      )
    return Processes(1 if jobs is None else jobs)
  extra, package = _EXTRAS[name]
  startup.check_installed(package, extra, "executor", name)
  restarts = values.pop(_RESTARTS, _USUAL_RESTARTS)
  if type(restarts) is not int or restarts < 0:
    raise option_error(
      _RESTARTS,
      restarts,
      "expected how often a run resumes by itself after its job was lost: 0, "
      "1, 2, ...",
    )
  # Imported here, as these modules import optional packages.
  if name == SUBMITIT:
    from tff_fair.experiments.sweeps import submitit_jobs  # noqa: PLC0415

    return submitit_jobs.SubmititJobs(
      folder / "submitit", values, jobs=jobs, restarts=restarts
    )
  from tff_fair.experiments.sweeps import dask_workers  # noqa: PLC0415

  return dask_workers.DaskWorkers(values, jobs=jobs, restarts=restarts)


def _value(name: str, value: object) -> object:
  """Returns an option's value, parsed if it is a string of valid JSON."""
  # The option "name" stays a string, even if it looks like a number.
  if isinstance(value, str) and name != "name":
    with contextlib.suppress(ValueError):
      value = parsing.parse_json(value)
  return value
