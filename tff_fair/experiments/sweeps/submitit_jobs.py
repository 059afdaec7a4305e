"""Carries out runs as jobs of a Slurm cluster, through the package submitit.

The options are submitit's own, such as `slurm_partition` and `timeout_min`, and
`cluster`; without `cluster`, submitit finds the cluster.
"""

import contextlib
import dataclasses
import os
import pathlib
import pickle
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping

import submitit
from submitit.core.utils import UncompletedJobError
from submitit.slurm import slurm

from tff_fair import declared
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import processes, remote
from tff_fair.experiments.sweeps.jobs import LOST, Executor, Job, option_error

_CLUSTER = "cluster"
_SECONDS_UNTIL_WRITTEN = 15.0
# submitit takes these options only when it creates an executor.
_CONSTRUCTOR_OPTIONS = ("max_num_timeout", "max_pickle_size_gb", "python")
# Slurm must not requeue a lost job: since the sweep resumes the job's run, two
# jobs would train it.
_ADDITIONAL = "slurm_additional_parameters"
_NO_REQUEUE = {"no-requeue": True}
# These options must be 1, as each of several tasks would begin the same run.
_TASK_OPTIONS = {"nodes", "tasks_per_node", "ntasks_per_node"}
_FAILED = 1
# The name of submitit's error if a job reached its time limit.
_CUT_OFF = UncompletedJobError.__name__


class SubmititJobs(Executor):
  """An executor that carries out each run as a job of a Slurm cluster."""

  is_shared = True
  poll_interval_seconds = 1.0
  query_interval_seconds = 2.0
  # More than the half minute that Slurm gives a job to end.
  stop_timeout_seconds = 40.0

  def __init__(
    self,
    folder: pathlib.Path,
    options: Mapping[str, object],
    *,
    jobs: int | None,
    restarts: int,
  ) -> None:
    for name, value in options.items():
      if {name, name.split("_", 1)[-1]} & _TASK_OPTIONS and value != 1:
        raise option_error(name, value, "expected 1: a run is one task.")
    self.restarts = restarts
    self._folder = folder
    self._options = options
    self.jobs = jobs
    self._executor: submitit.AutoExecutor | None = None
    self._queue = _Watcher()
    with tempfile.TemporaryDirectory() as tried:
      self._create_executor(pathlib.Path(tried))

  def __str__(self) -> str:
    options = {**self._options, "restarts": self.restarts}
    assignments = [f"{n}={declared.as_text(v)}" for n, v in options.items()]
    if _CLUSTER not in options:
      assignments.insert(0, f"{_CLUSTER}={submitit.AutoExecutor.which()}")
    return f"submitit ({', '.join(assignments)})"

  @contextlib.contextmanager
  def session(self) -> Iterator[None]:
    """Creates submitit's executor; at the end, removes its folder if empty."""
    self._executor = self._create_executor(self._folder)
    try:
      yield
    finally:
      _tidy(self._folder)

  def start(self, job: Job) -> "_SubmittedRun":
    """Submits a run to the cluster."""
    assert self._executor is not None
    try:
      with (
        processes.block_interrupts(),
        processes.export_module_paths(),
      ):
        submitted = self._executor.submit(
          # A "debug" job runs in this process, where the sweep handles signals.
          remote.run
          if self._executor.cluster == "debug"
          else remote.run_until_signal,
          uuid.uuid4().hex,
          pickle.dumps(job),
          str(job.log),
          os.getcwd(),
        )
    except Exception as error:  # submitit raises several error classes.
      raise RunError(
        f"{job.path}: the cluster does not take the job: "
        f"{_last_error_line(str(error))}; if it limits the number of jobs, "
        "give a smaller number of jobs."
      ) from error
    if isinstance(submitted, submitit.SlurmJob):
      submitted.watcher = self._queue
    return _SubmittedRun(job, submitted, self)

  def _create_executor(self, folder: pathlib.Path) -> submitit.AutoExecutor:
    options = {"name": "tff-fair", _ADDITIONAL: {}, **self._options}
    if isinstance(given := options[_ADDITIONAL], Mapping):
      options[_ADDITIONAL] = {**_NO_REQUEUE, **given}
    cluster = options.pop(_CLUSTER, None)
    of_executor = {
      name: options.pop(name)
      for name in list(options)
      if name.split("_", 1)[-1] in _CONSTRUCTOR_OPTIONS
    }
    with _name_rejected_option({_CLUSTER: cluster, **of_executor}):
      executor = submitit.AutoExecutor(
        folder, None if cluster is None else str(cluster), **of_executor
      )
    for name, value in options.items():
      with _name_rejected_option({name: value}):
        executor.update_parameters(**{name: value})
    return executor


@contextlib.contextmanager
def _name_rejected_option(options: Mapping[str, object]) -> Iterator[None]:
  """Turns submitit's error about an option into one that names this option."""
  try:
    yield
  except OSError:  # A problem with the folder, not with an option.
    raise
  except Exception as error:  # submitit raises several classes of errors.
    # Only the first line describes the problem; later lines list valid values.
    problem = next(iter(str(error).splitlines()), type(error).__name__)
    given = {n: v for n, v in options.items() if v is not None}
    name, value = next(iter(given.items()), (_CLUSTER, "by itself"))
    raise option_error(name, value, problem) from error


@dataclasses.dataclass(eq=False)
class _SubmittedRun:
  """A run whose job the cluster has accepted."""

  job: Job
  submitted: "submitit.Job[int]"
  executor: SubmititJobs
  is_stopped: bool = False
  ended_at: float | None = None

  def poll(self) -> int | None:
    if not self.submitted.done(
      force_check=self.is_stopped and self.executor.start_query_if_due()
    ):
      return None
    result = self.submitted.paths.result_pickle
    is_debug = isinstance(self.submitted, submitit.DebugJob)
    if not is_debug and not result.exists():
      return self._handle_missing_result()
    try:
      status = int(self.submitted.result())
    except Exception as error:
      if self.is_stopped:
        return LOST
      reason = _last_error_line(str(error))
      self.job.note(reason)
      # A run whose job only reached its time limit is resumed.
      return LOST if _CUT_OFF in reason else _FAILED
    if status == 0 or self.is_stopped:
      self._tidy()
    return status

  def stop(self) -> None:
    self.is_stopped = True
    with contextlib.suppress(OSError):
      if isinstance(self.submitted, submitit.LocalJob):
        # submitit's `cancel` would leave the run one second to save its rounds.
        os.kill(int(self.submitted.job_id), signal.SIGTERM)
      else:
        self.submitted.cancel(check=False)

  def kill(self) -> None:
    with contextlib.suppress(OSError):
      self.submitted.cancel(check=False)

  def _handle_missing_result(self) -> int | None:
    """Returns None while the job's result may still appear, then `LOST`."""
    if self.is_stopped:
      return LOST
    now = time.monotonic()
    self.ended_at = self.ended_at or now
    is_late = now - self.ended_at > _SECONDS_UNTIL_WRITTEN
    # Only a cluster's file system may show the result file late.
    if not (is_late or isinstance(self.submitted, submitit.LocalJob)):
      return None
    self.job.note(
      f"Job {self.submitted.job_id} ended without a result: "
      f"{self.submitted.state.lower()}."
    )
    return LOST

  def _tidy(self) -> None:
    """Removes the job's files; the run's log already has the output."""
    paths = self.submitted.paths
    for path in (
      *(paths.submitted_pickle, paths.result_pickle, paths.submission_file),
      *(paths.stdout, paths.stderr),
    ):
      with contextlib.suppress(OSError):
        path.unlink()


def _tidy(folder: pathlib.Path) -> None:
  """Removes the folder of jobs, unless it still holds files of failed jobs."""
  for link in folder.glob(".submission_file_*"):
    if not link.exists():  # The link's target was removed.
      link.unlink(missing_ok=True)
  with contextlib.suppress(OSError):
    folder.rmdir()


def _last_error_line(text: str) -> str:
  """Returns the last line of a traceback between dashed lines, or of `text`."""
  lines = [line for line in text.splitlines() if line.strip()]
  rules = [n for n, line in enumerate(lines) if set(line.strip()) == {"-"}]
  if len(rules) > 1:
    return lines[rules[-1] - 1].strip()
  return lines[-1].strip() if lines else "no reason given"


# A long interval, since Slurm's controller serves all programs of a cluster.
_WATCHER_INTERVAL_SECONDS = 30
# Jobs in these states have ended; jobs in all other states may continue, even
# preempted ones, which Slurm puts into the queue again or removes.
_ENDED = {
  *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
  *("OUT_OF_MEMORY", "TIMEOUT"),
}
# This module's own state for a job that Slurm no longer lists: Slurm forgets a
# job some minutes after its end.
_FORGOTTEN = "NO LONGER IN THE QUEUE"
_UNKNOWN = "UNKNOWN"
_STATE = "State"


class _Watcher(slurm.SlurmInfoWatcher):
  """Queries Slurm's queue for the states of all jobs of a user at once.

  submitit itself queries Slurm's accounting (sacct). Many clusters lack it, and
  there a dead job would seem to run forever.
  """

  def __init__(self) -> None:
    super().__init__(delay_s=_WATCHER_INTERVAL_SECONDS)
    self._job_ids: set[str] = set()

  def register_job(self, job_id: str) -> None:
    """Registers a job, so that `read_info` returns its state."""
    super().register_job(job_id)
    self._job_ids.add(job_id)

  def _make_command(self) -> list[str]:
    return ["squeue", "--me", "--states=all", "--noheader", "--format=%i|%T"]

  def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
    """Returns the states of registered jobs, read from the output of squeue."""
    text = string if isinstance(string, str) else string.decode()
    states = dict(line.split("|", 1) for line in text.split())
    return {
      job_id: {_STATE: states.get(job_id, _FORGOTTEN)}
      for job_id in self._job_ids
    }

  def get_state(self, job_id: str, mode: str = "standard") -> str:
    """Returns the state of a job; `_UNKNOWN` until Slurm has answered."""
    return self.get_info(job_id, mode=mode).get(_STATE, _UNKNOWN)

  def is_done(self, job_id: str, mode: str = "standard") -> bool:
    """Returns whether a job has ended."""
    return self.get_state(job_id, mode=mode) in {*_ENDED, _FORGOTTEN}
