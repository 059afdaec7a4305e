"""Contexts that look after their workers while they wait for them."""

import abc
import asyncio
import concurrent.futures
import contextlib
import functools
import signal
import subprocess
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import (
  connections,
  label_errors,
  native,
  private_tff,
  supervision,
  threads,
  worker_start,
  workers,
)
from tff_fair.runtime.parts import calls, cohort_cuts, part_by_part

_MOST_LOST_IN_A_ROW = 3
_SECONDS_TO_END = 0.5


class _LostError(RuntimeError):
  """A worker was lost; says how."""


class _CuttingContext(tff.framework.SyncContext):
  """Computes cohorts of more clients than a part has in parts.

  Anything else is one call: smaller cohorts, and computations that cannot be
  cut.
  """

  def __init__(
    self, clients_per_part: int, *, simulate_secure_sums: bool
  ) -> None:
    """Starts the thread in which it computes.

    Args:
      clients_per_part: The most clients of a part; 0 never cuts.
      simulate_secure_sums: See `use_local`.
    """
    # From a computation to the one that a worker can compute.
    self._with_sums = (
      native.in_the_clear
      if simulate_secure_sums
      else native.without_secure_sums
    )
    self._clients_per_part = clients_per_part
    self._is_closed = False
    self._thread = threads.LoopThread()

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`.

    Raises:
      ValueError: If a client has a label that the model has no output for.
      WorkerLostError: If several workers in a row are lost, no worker is left,
        or those of others take too long.
    """
    compute = functools.partial(self._invoke, comp)
    return label_errors.explained(compute, arg)

  @abc.abstractmethod
  def _invoke(self, comp: Any, arg: Any) -> Any:
    """Computes, without an explanation of errors."""

  def _check_open(self) -> None:
    if self._is_closed:
      raise RuntimeError(connections.NO_WORKERS)

  def close(self, *, patience: float = 0.0) -> None:
    """Ends the thread, and waits so many seconds for it."""
    self._is_closed = True
    self._thread.close(patience=patience)


class LocalContext(_CuttingContext):
  """Computes in one worker, which this program has started.

  While it is `supervised`, a worker that is lost is replaced.

  Attributes:
    worker: The worker.
  """

  def __init__(
    self,
    opened: contextlib.ExitStack,
    clients_per_part: int,
    *,
    plain: bool = False,
    default_num_clients: int = 0,
    stream_structs: bool = False,
    simulate_secure_sums: bool = False,
    **of_worker: Any,
  ) -> None:
    """Starts the worker.

    Args:
      opened: Ends context and worker; the program ends them at the latest.
      clients_per_part: The most clients of a part; 0 never cuts.
      plain: Whether TFF's own executors compute.
      default_num_clients: See `use_local`, also for the others.
      stream_structs: Likewise.
      simulate_secure_sums: Likewise.
      **of_worker: The arguments of `start_worker`.

    Raises:
      RuntimeError: If the worker ends instead of getting ready.
      TimeoutError: If it does not get ready in time.
    """
    self._start = functools.partial(worker_start.start_worker, **of_worker)
    self.worker = opened.enter_context(self._start())
    self._executors = connections.WorkerExecutors(
      self.worker.address,
      process=self.worker,
      plain=plain or not private_tff.check(),
      default_num_clients=default_num_clients,
      stream_structs=stream_structs,
    )
    opened.callback(connections.close_all, [self._executors])
    super().__init__(
      clients_per_part, simulate_secure_sums=simulate_secure_sums
    )
    self._calls = calls.Calls(self._executors, self.worker.clients_at_a_time)
    self._under_way: list[concurrent.futures.Future[Any]] = []
    self._is_abandoned = False
    self._silent_for = 0.0
    # Runs first: closing must not wait for a round that the program gave up.
    opened.callback(self.close)

  def _invoke(self, comp: Any, arg: Any) -> Any:
    """Computes in parts where the cohort is large, otherwise in one call."""
    called = self._with_sums(comp)
    # Rows of clients, as evaluations return them, are small: parts would save
    # no memory, and take longer in one worker.
    cut = None
    if not cohort_cuts.returns_rows(comp.type_signature.result):
      cut = cohort_cuts.cut(comp, arg, self._clients_per_part)
    if cut is None:
      return self._invoke_whole(called, arg)
    try:
      return part_by_part.compute_in_one_worker(self._begin_part, arg, *cut)
    finally:
      for future in self._under_way:  # The caller no longer waits.
        future.cancel()

  def _invoke_whole(self, comp: Any, arg: Any) -> Any:
    """Computes in one call, which is repeated if its worker is lost."""
    return self._begin(self._calls.invoke, comp, arg)()

  def _begin_part(self, comp: Any, arg: Any) -> Callable[[], Any]:
    """Begins a call of a part; returns what waits for its result."""
    return self._begin(self._calls.call, comp, arg)

  def _begin(
    self, call: Callable[..., Coroutine[Any, Any, Any]], comp: Any, arg: Any
  ) -> Callable[[], Any]:
    """Begins a call; returns what waits for its result, and may repeat it."""

    def submit() -> concurrent.futures.Future[Any]:
      return self._thread.submit(call(comp, arg))

    self._check_open()
    if self._is_abandoned:  # Busy with a call that was given up.
      self._replace()
    if (supervised := supervision.current()) is not None:
      supervised.check()
    future, worker = self._submitted(submit), self.worker
    return lambda: self._result(submit, future, worker)

  def _submitted(
    self, submit: Callable[[], concurrent.futures.Future[Any]]
  ) -> concurrent.futures.Future[Any]:
    future = submit()
    self._under_way = [f for f in self._under_way if not f.done()]
    self._under_way.append(future)
    return future

  def _result(
    self,
    submit: Callable[[], concurrent.futures.Future[Any]],
    future: concurrent.futures.Future[Any],
    worker: workers.Worker,
  ) -> Any:
    """Waits for a result; repeats the call if its worker is lost."""
    supervised = supervision.current()
    if supervised is None:
      return future.result()
    lost: _LostError | None = None
    for _ in range(_MOST_LOST_IN_A_ROW):
      try:
        if lost is not None:
          supervised.say(
            f"The worker (process {self.worker.pid}) {lost}. Another one "
            "computes this again."
          )
          self._replace()
        if worker is not self.worker:  # It was lost, with this call or before.
          future, worker = self._submitted(submit), self.worker
        return self._wait(future, supervised)
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
      return supervision.wait(future, supervised, self._kill, self.worker)
    except BaseException as error:
      if not future.done():  # Ctrl-C, or a check, ends the wait.
        self._is_abandoned = True
        future.cancel()
        self.worker.stop()
      elif isinstance(error, Exception) and self._has_ended():
        raise _LostError(self._how_it_was_lost()) from error
      raise

  def _has_ended(self) -> bool:
    # A call may fail a moment before the worker's end shows.
    with contextlib.suppress(subprocess.TimeoutExpired):
      self.worker.wait(timeout=_SECONDS_TO_END)
    return not self.worker.is_running

  def _kill(self, seconds: float) -> None:
    """Ends a worker that does not answer; the call that waits for it fails."""
    self._silent_for = seconds
    self.worker.stop()

  def _how_it_was_lost(self) -> str:
    if self._silent_for:
      return f"did not answer for {self._silent_for:.0f} s and was ended"
    status = self.worker.wait()
    if status == -signal.SIGKILL:
      return "was killed; the machine may have run out of memory"
    if status < 0:
      return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"

  def _replace(self) -> None:
    self.worker.stop()
    # Other calls fail with it, and must not take the new one for theirs.
    concurrent.futures.wait(self._under_way, timeout=_SECONDS_TO_END)
    try:
      self.worker = self._start()
      self._executors.replace(self.worker)
    except (ConnectionError, RuntimeError, TimeoutError) as error:
      raise _LostError(f"did not start: {error}") from error
    self._is_abandoned = False

  def close(self, *, patience: float = 5.0) -> None:
    """Ends the worker, and the thread that waits for it."""
    self._is_closed = True
    self.worker.stop()
    # It may still prepare a computation that the caller gave up; Python aborts
    # if TensorFlow works while it ends.
    super().close(patience=patience)


class AsynchronousContext(tff.framework.AsyncContext):
  """Computes by another context, in threads: who calls need not wait.

  It computes one call after the other, as a worker of this program does.
  """

  def __init__(self, context: tff.framework.SyncContext) -> None:
    """Takes the context that computes."""
    self._context = context
    self._lock = threading.Lock()

  async def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    if asyncio.iscoroutine(arg):
      arg = await arg
    return await asyncio.wrap_future(
      threads.in_thread(lambda: self._invoke(comp, arg))
    )

  def _invoke(self, comp: Any, arg: Any) -> Any:
    with self._lock:
      return self._context.invoke(comp, arg)


class PartsContext(_CuttingContext):
  """Computes on an engine, with the same result in whichever worker."""

  def __init__(
    self,
    engine: part_by_part.Engine,
    clients_per_part: int,
    *,
    simulate_secure_sums: bool,
  ) -> None:
    """Takes the engine.

    Args:
      engine: Computes the calls.
      clients_per_part: As above.
      simulate_secure_sums: As above.
    """
    super().__init__(
      clients_per_part, simulate_secure_sums=simulate_secure_sums
    )
    self._engine = engine

  def _invoke(self, comp: Any, arg: Any) -> Any:
    supervised = supervision.current()
    if supervised is not None:
      supervised.check()
    self._check_open()
    future = self._thread.submit(self._compute(comp, arg))
    try:
      if supervised is None:
        return future.result()
      return supervision.wait(future, supervised, _tell_of_silence)
    except BaseException:
      future.cancel()  # The caller no longer waits for it.
      raise

  async def _compute(self, comp: Any, arg: Any) -> Any:
    called = self._with_sums(comp)
    cut = cohort_cuts.cut(comp, arg, self._clients_per_part)
    if cut is None:
      args = [] if comp.type_signature.parameter is None else [arg]
      return await self._engine.fetch(await self._engine.call(called, *args))
    return await part_by_part.compute(self._engine, arg, *cut)


def _tell_of_silence(seconds: float) -> None:
  raise supervision.WorkerLostError(
    f"the workers did not answer for {seconds:.0f} s"
  )
