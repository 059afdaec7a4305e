"""Contexts that look after their workers while they wait for them."""

import concurrent.futures
import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import connections, native, supervision, workers

_MOST_LOST_IN_A_ROW = 3
_SECONDS_TO_END = 0.5
_SECONDS_TO_CLOSE = 5.0


class _LostError(RuntimeError):
  """A worker was lost; says how."""


class LocalContext(tff.framework.SyncContext):
  """Computes in a worker that this program has started.

  While it is `supervised`, a worker that is lost is replaced.
  """

  def __init__(
    self,
    context: connections.ConcurrentContext,
    executors: connections.WorkerExecutors,
    worker: workers.Worker,
    start: Callable[[], workers.Worker],
  ) -> None:
    """Takes the parts.

    Args:
      context: Computes by the executors.
      executors: Those of the worker.
      worker: The worker.
      start: Starts another one like it.
    """
    self._context = context
    self._executors = executors
    self._worker = worker
    self._start = start
    self._is_closed = False
    self._is_abandoned = False
    self._silent_for = 0.0

  @property
  def worker(self) -> workers.Worker:
    """The worker that computes."""
    return self._worker

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`.

    Raises:
      WorkerLostError: If several workers in a row are lost.
    """
    if self._is_closed:
      raise RuntimeError(connections.NO_WORKERS)
    if self._is_abandoned:  # In the middle of what nobody waited for.
      self._replace()
    supervised = supervision.current()
    if supervised is None:
      return self._context.submit(comp, arg).result()
    supervised.check()
    lost: _LostError | None = None
    for _ in range(_MOST_LOST_IN_A_ROW):
      try:
        if lost is not None:
          supervised.say(
            f"The worker (process {self._worker.pid}) {lost}. Another one "
            "computes this again, with the same result."
          )
          self._replace()
        return self._wait(self._context.submit(comp, arg), supervised)
      except _LostError as error:
        lost = error
    raise supervision.WorkerLostError(
      f"{_MOST_LOST_IN_A_ROW} workers in a row were lost; the last one {lost}"
    ) from lost

  def _wait(
    self,
    future: concurrent.futures.Future[Any],
    supervised: supervision.Supervision,
  ) -> Any:
    """Returns a result; raises a `_LostError` if the worker has ended."""
    self._silent_for = 0.0
    try:
      return supervision.wait(future, supervised, self._kill, self._worker)
    except BaseException as error:
      if not future.done():  # Somebody wants to end the program.
        self._is_abandoned = True
        future.cancel()
        self._worker.stop()
      elif isinstance(error, Exception) and self._has_ended():
        raise _LostError(self._how_it_was_lost()) from error
      raise

  def _has_ended(self) -> bool:
    # A call may fail a moment before the worker's end shows.
    with contextlib.suppress(subprocess.TimeoutExpired):
      self._worker.wait(timeout=_SECONDS_TO_END)
    return not self._worker.is_running

  def _kill(self, seconds: float) -> None:
    """Ends a worker that does not answer; the call that waits for it fails."""
    self._silent_for = seconds
    self._worker.stop()

  def _how_it_was_lost(self) -> str:
    if self._silent_for:
      return f"did not answer for {self._silent_for:.0f} s and was ended"
    status = self._worker.wait()
    if status == -signal.SIGKILL:
      return "was killed; the machine may have run out of memory"
    if status < 0:
      return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"

  def _replace(self) -> None:
    self._worker.stop()
    try:
      self._worker = self._start()
      self._executors.replace(self._worker)
    except (ConnectionError, RuntimeError, TimeoutError) as error:
      raise _LostError(f"did not start: {error}") from error
    self._is_abandoned = False

  def close(self) -> None:
    """Ends the worker, and the thread that waits for it."""
    self._is_closed = True
    self._worker.stop()
    # It may still prepare a computation that nobody waits for any more; Python
    # aborts if TensorFlow works while it ends.
    self._context.close(patience=_SECONDS_TO_CLOSE)


class RemoteContext(tff.framework.SyncContext):
  """Computes in workers of others, which it can leave but not replace."""

  def __init__(self, context: tff.framework.SyncContext) -> None:
    """Takes the context that computes."""
    self._context = context

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`.

    Raises:
      RuntimeError: If it has secure sums.
      WorkerLostError: If it takes too long.
    """
    native.check_no_secure_sums(comp)
    supervised = supervision.current()
    if supervised is None:
      return self._context.invoke(comp, arg)
    supervised.check()
    result: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def compute() -> None:
      try:
        result.set_result(self._context.invoke(comp, arg))
      except BaseException as error:
        result.set_exception(error)

    # A daemon does not keep a program alive that waits no longer.
    threading.Thread(target=compute, daemon=True).start()
    return supervision.wait(result, supervised, _tell_of_silence)


def _tell_of_silence(seconds: float) -> None:
  raise supervision.WorkerLostError(
    f"the workers did not answer for {seconds:.0f} s"
  )
