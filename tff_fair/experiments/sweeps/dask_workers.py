"""Carries out runs on the workers of a Dask cluster, one per worker at a time.

The option `scheduler` is the address of a cluster; without it, the sweep starts
a cluster of processes on this machine, and stops it at the end.
"""

import contextlib
import dataclasses
import os
import pickle
import uuid
from collections.abc import Iterator, Mapping

import distributed

from tff_fair.experiments.sweeps import processes, remote
from tff_fair.experiments.sweeps.jobs import LOST, Executor, Job, option_error
from tff_fair.runtime.dask_engine import clusters

_SCHEDULER = "scheduler"
_SECONDS_TO_CONNECT = 10
_SECONDS_FOR_RESULT = 10
_FAILED = 1


class DaskWorkers(Executor):
  """An executor that carries out runs on the workers of a Dask cluster."""

  is_shared = True
  poll_interval_seconds = query_interval_seconds = 0.5
  stop_timeout_seconds = 60.0

  def __init__(
    self, options: Mapping[str, object], *, jobs: int | None, restarts: int
  ) -> None:
    for name, value in options.items():
      if name != _SCHEDULER:
        raise option_error(
          name, value, f"unknown; valid: {_SCHEDULER}, restarts."
        )
      if not isinstance(value, str) or ":" not in value:
        raise option_error(
          name, value, "expected an address such as tcp://host:8786."
        )
    self.restarts = restarts
    self._options = options
    self.jobs = jobs
    self._client: distributed.Client | None = None
    self.busy: set[str] = set()  # The addresses of workers that run a job.
    self._workers: set[str] = set()

  def __str__(self) -> str:
    where = (
      f"{_SCHEDULER}={self._options[_SCHEDULER]}"
      if self._options
      else f"a local cluster of {self.jobs or 1}"
    )
    return f"dask ({where}, restarts={self.restarts})"

  @contextlib.contextmanager
  def session(self) -> Iterator[None]:
    """Connects to the cluster, or starts one."""
    with contextlib.ExitStack() as closing:
      cluster = self._options.get(_SCHEDULER)
      if cluster is None:
        # Without this, a restarted worker would import the user's script.
        closing.enter_context(processes.hide_main_module())
        # Runs are separate processes, so a worker cannot limit their memory.
        cluster = clusters.start_local(
          closing, self.jobs or 1, limits_memory=False
        )
      try:
        self._client = clusters.connect_unprepared(
          closing, cluster, _SECONDS_TO_CONNECT
        )
      except ConnectionError as error:
        raise option_error(_SCHEDULER, cluster, str(error)) from error
      yield

  def has_room(self, num_running: int) -> bool:
    """Returns whether another run may start and a worker is free."""
    return super().has_room(num_running) and bool(self.workers() - self.busy)

  def start(self, job: Job) -> "_Task":
    """Starts a run on a free worker."""
    # `has_room` has queried the workers. If the chosen worker has gone since
    # then, the run is lost, and the sweep starts it again on another worker.
    worker = min(self._workers - self.busy)
    key = f"{job.name}-{uuid.uuid4().hex}"
    future = self.client.submit(
      remote.run,
      key,
      pickle.dumps(job),
      str(job.log),
      os.getcwd(),
      key=key,
      pure=False,
      workers=[worker],
      allow_other_workers=False,
    )
    self.busy.add(worker)
    return _Task(job, key, worker, future, self)

  @property
  def client(self) -> distributed.Client:
    """The connection to the scheduler."""
    assert self._client is not None
    return self._client

  def workers(self) -> set[str]:
    """Returns the workers' addresses, from a recent query of the cluster."""
    if self.start_query_if_due():
      try:
        self._workers = set(self.client.nthreads())
      except Exception as error:  # Dask raises many error classes.
        raise option_error(
          _SCHEDULER,
          self._options.get(_SCHEDULER, "of this machine"),
          "is gone; what the runs have saved is kept: repeat the command to "
          "resume.",
        ) from error
    return self._workers


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
  """A run as a task of one Dask worker."""

  job: Job
  key: str
  worker: str
  future: "distributed.Future[int]"
  executor: DaskWorkers

  def poll(self) -> int | None:
    status = self._status()
    if status is not None:
      self.executor.busy.discard(self.worker)
      with contextlib.suppress(Exception):  # The scheduler may be gone.
        self.future.cancel()
    return status

  def stop(self) -> None:
    self._call(remote.stop)

  def kill(self) -> None:
    self._call(remote.kill)

  def _status(self) -> int | None:
    state = self.future.status
    if state == "finished":
      try:
        return int(self.future.result(timeout=_SECONDS_FOR_RESULT))
      except (OSError, distributed.CancelledError):
        return LOST  # The worker was lost with the result.
    if state == "error":
      error = self.future.exception(timeout=_SECONDS_FOR_RESULT)
      if isinstance(error, distributed.scheduler.KilledWorker):
        return LOST
      self.job.note(" ".join(str(error).split()))
      return _FAILED
    is_there = self.worker in self.executor.workers()
    return None if state == "pending" and is_there else LOST

  def _call(self, function: object) -> None:
    """Calls `function` with the run's key on the worker while the task runs."""
    with contextlib.suppress(Exception):  # The worker may be gone.
      self.executor.client.run(
        function, self.key, workers=[self.worker], on_error="ignore"
      )
