"""Computes in threads, so that the calling thread stays free for signals.

All these threads are daemons, so a program can end in the middle of a round.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tff_fair.runtime import cgroups

_Result = TypeVar("_Result")

# How long `Call.cancel` waits for the computation to end.
_SECONDS_TO_END = 2.0


class _Worker:
  """A thread that runs one computation after another."""

  def __init__(self) -> None:
    self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    threading.Thread(target=self._run, daemon=True).start()

  def _run(self) -> None:
    while True:
      self._work.get()()
      _idle.append(self)

  def begin(self, work: Callable[[], None]) -> None:
    self._work.put(work)


# Workers are reused: with a new thread, a call takes 1 to 3 ms more.
_idle: list[_Worker] = []
# A forked child does not have its parent's threads.
os.register_at_fork(after_in_child=_idle.clear)


def submit(
  compute: Callable[[], _Result],
) -> concurrent.futures.Future[_Result]:
  """Calls `compute` in a separate thread; returns the result's future."""
  result: concurrent.futures.Future[_Result] = concurrent.futures.Future()

  def run() -> None:
    # The caller may have cancelled the future.
    with contextlib.suppress(concurrent.futures.InvalidStateError):
      try:
        result.set_result(compute())
      except BaseException as error:
        result.set_exception(error)

  try:
    worker = _idle.pop()
  except IndexError:
    worker = _Worker()
  worker.begin(run)
  return result


class Call:
  """A cancellable computation in a separate thread."""

  def __init__(self, compute: Callable[[], Any]) -> None:
    """Starts the computation."""
    self._lock = threading.Lock()
    self._cancels: list[Callable[[], None]] = []
    self._is_cancelled = False

    def run() -> Any:
      _thread_state.call = self
      try:
        return compute()
      finally:
        _thread_state.call = None

    self.result = submit(run)

  @contextlib.contextmanager
  def on_cancel(self, cancel: Callable[[], None]) -> Iterator[None]:
    """Calls `cancel` if the call is cancelled within this context."""
    with self._lock:
      self.check_not_cancelled()
      self._cancels.append(cancel)
    try:
      yield
    finally:
      with self._lock:
        self._cancels.remove(cancel)

  def check_not_cancelled(self) -> None:
    """Raises `CancelledError` if the call is cancelled."""
    if self._is_cancelled:
      raise concurrent.futures.CancelledError

  def cancel(self) -> None:
    """Cancels the computation, and waits a moment for it to end."""
    with self._lock:
      self._is_cancelled = True
      # Under the lock, so no `on_cancel` block ends while its `cancel` runs.
      for cancel in self._cancels:
        cancel()
    concurrent.futures.wait([self.result], timeout=_SECONDS_TO_END)
    if not self.result.done():
      _abandoned_results.append(self.result)


_thread_state = threading.local()
_abandoned_results: list[concurrent.futures.Future[Any]] = []


def exit_if_computing() -> None:
  """Ends the process if a cancelled call still runs: a normal exit may hang."""
  if all(result.done() for result in _abandoned_results):
    return
  with contextlib.suppress(OSError, ValueError):
    sys.stdout.flush()
    sys.stderr.flush()
  error = getattr(sys, "last_value", None)
  if isinstance(error, KeyboardInterrupt):  # Python would end the same way.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
  os._exit(_status if error is None else 1)


# The exit status of a program that ends in the middle of a computation.
_status = 1


def record_exit_status(error: BaseException) -> None:
  """Records the exit status of a `SystemExit` for `exit_if_computing`."""
  global _status  # noqa: PLW0603
  if isinstance(error, SystemExit):
    _status = (
      error.code if isinstance(error.code, int) else int(bool(error.code))
    )


def on_cancel(
  cancel: Callable[[], None],
) -> contextlib.AbstractContextManager[None]:
  """Calls `cancel` if this thread's call is cancelled within this context."""
  call: Call | None = getattr(_thread_state, "call", None)
  return contextlib.nullcontext() if call is None else call.on_cancel(cancel)


def check_not_cancelled() -> None:
  """Raises `CancelledError` if this thread's call is cancelled."""
  call: Call | None = getattr(_thread_state, "call", None)
  if call is not None:
    call.check_not_cancelled()


def num_cores() -> int:
  """Returns the number of cores that this program may use, at least 1."""
  allowed = len(os.sched_getaffinity(0))
  return math.ceil(min(allowed, cgroups.cores()))


def threads_per_operation() -> int:
  """Returns how many threads an operation gets: few, as clients run at once."""
  return max(1, num_cores() // 8)
