"""An engine of TFF workers: whichever is free takes the next call.

A call is a function of its arguments. So one whose worker is lost runs again in
another one, and one that takes too long runs in two at the same time: the
result is the same, bit for bit.
"""

import asyncio
import contextlib
import dataclasses
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_fair.runtime import connections, native, supervision
from tff_fair.runtime.parts import arguments

_SECONDS_BETWEEN_QUESTIONS = 0.5
_MOST_LOST_IN_A_ROW = 3


@dataclasses.dataclass(eq=False)
class _Job:
  """A call.

  Attributes:
    comp: The computation.
    arg: Its argument.
    result: The result to come.
    num_lost: How many workers were lost with it.
  """

  comp: tff.Computation
  arg: Any
  result: asyncio.Future[Any]
  num_lost: int = 0

  def fail(self, error: BaseException) -> None:
    if not self.result.done():
      self.result.set_exception(error)


class WorkerPool:
  """Computes calls in workers of others; an `Engine`.

  Values stay in this program, so that no result is lost with a worker.
  """

  def __init__(
    self,
    workers: Sequence[connections.RemoteWorker],
    *,
    timeout: float,
    straggler_timeout: float | None = None,
  ) -> None:
    """Takes the workers.

    Args:
      workers: They answer.
      timeout: Seconds to wait for one to come back, when all are lost.
      straggler_timeout: Seconds after which a call that has not ended is also
        given to another worker; by default never.
    """
    self._workers = workers
    self._timeout = timeout
    self._straggler_timeout = straggler_timeout
    self._lost: dict[
      connections.RemoteWorker, str
    ] = {}  # How each was; the last one last.
    self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
    self._tasks: set[asyncio.Task[None]] = set()
    self._compiled: weakref.WeakKeyDictionary[
      tff.Computation, asyncio.Future[tff.Computation]
    ] = weakref.WeakKeyDictionary()

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    """Keeps a value in this program, from where each call takes it."""
    del type_spec
    return value

  async def call(self, comp: tff.Computation, *args: Any) -> Any:
    """Computes `comp(*args)` in any one worker; see `Engine`.

    Raises:
      WorkerLostError: If all workers are lost, or several with this call.
    """
    if not self._tasks:
      for worker in self._workers:
        self._start(self._serve(worker))
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    job = _Job(await self._compile(comp), arguments.joined(args), result)
    self._jobs.put_nowait(job)
    if len(self._lost) == len(self._workers):
      self._start(self._give_up())
    try:
      return await result
    finally:
      result.cancel()  # No worker needs to begin it any more.

  async def fetch(self, result: Any) -> Any:
    """Returns a result, which is here already."""
    return result

  def _start(self, work: Any) -> None:
    task = asyncio.get_running_loop().create_task(work)
    self._tasks.add(task)  # asyncio itself keeps no hold on it.
    task.add_done_callback(self._tasks.discard)

  async def _compile(self, comp: tff.Computation) -> tff.Computation:
    """Compiles a computation once for all workers."""
    if comp not in self._compiled:
      self._compiled[comp] = asyncio.ensure_future(
        asyncio.to_thread(native.compile_ahead, comp)
      )
    return await asyncio.shield(self._compiled[comp])

  async def _serve(self, worker: connections.RemoteWorker) -> None:
    """Has a worker take one call after the other."""
    while True:
      job = await self._jobs.get()
      if job.result.done():
        continue
      how = await self._compute(worker, job)
      if how is not None:
        self._leave_out(worker, job, how)
        await self._wait_for(worker)

  async def _compute(
    self, worker: connections.RemoteWorker, job: _Job
  ) -> str | None:
    """Computes a call; returns how the worker was lost, if it was."""
    computing = asyncio.wrap_future(worker.submit(job.comp, job.arg))
    stopping = asyncio.ensure_future(worker.pulse.stops())
    either = (computing, stopping)
    try:
      done, _ = await asyncio.wait(
        either,
        timeout=self._straggler_timeout,
        return_when=asyncio.FIRST_COMPLETED,
      )
      if not done:
        self._give_to_another(worker, job)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
      stopping.cancel()
    if not computing.done():
      computing.cancel()
      return stopping.result()
    return await self._finish(worker, job, computing)

  async def _finish(
    self,
    worker: connections.RemoteWorker,
    job: _Job,
    computed: asyncio.Future[Any],
  ) -> str | None:
    error = computed.exception()
    if error is None:
      if not job.result.done():
        job.result.set_result(computed.result())
      return None
    if isinstance(error, ConnectionError):
      return str(error)
    # A connection that breaks shows as an error of gRPC's, of several kinds.
    if isinstance(error, grpc.RpcError) and (
      how := await worker.pulse.problem()
    ):
      return how
    job.fail(error)
    return None

  def _give_to_another(
    self, worker: connections.RemoteWorker, job: _Job
  ) -> None:
    if job.result.done() or len(self._workers) == 1:
      return
    _say(
      f"The worker at {worker.address} has computed for "
      f"{self._straggler_timeout:g} s. Another one computes the same, and the "
      "first result counts."
    )
    self._jobs.put_nowait(job)

  def _leave_out(
    self, worker: connections.RemoteWorker, job: _Job, how: str
  ) -> None:
    self._lost[worker] = how
    if not job.result.done():
      self._compute_again(worker, job, how)
    if len(self._lost) == len(self._workers):
      self._start(self._give_up())

  def _compute_again(
    self, worker: connections.RemoteWorker, job: _Job, how: str
  ) -> None:
    job.num_lost += 1
    if job.num_lost < _MOST_LOST_IN_A_ROW:
      _say(f"The worker at {worker.address} {how}. Its part is computed again.")
      self._jobs.put_nowait(job)
      return
    job.fail(
      supervision.WorkerLostError(
        f"{_MOST_LOST_IN_A_ROW} workers in a row were lost with the same part "
        f"of a round; the last one, at {worker.address}, {how}"
      )
    )

  async def _wait_for(self, worker: connections.RemoteWorker) -> None:
    """Waits until a worker that was lost answers again."""
    while await worker.pulse.problem() is not None:
      await asyncio.sleep(_SECONDS_BETWEEN_QUESTIONS)
    worker.reconnect()
    del self._lost[worker]
    _say(f"The worker at {worker.address} answers again.")

  async def _give_up(self) -> None:
    """Ends all calls, unless a worker comes back in time."""
    await asyncio.sleep(self._timeout)
    if len(self._lost) < len(self._workers):
      return
    worker, how = [*self._lost.items()][-1]
    while not self._jobs.empty():
      self._jobs.get_nowait().fail(
        supervision.WorkerLostError(
          f"all workers are lost; the last one, at {worker.address}, {how}"
        )
      )


def _say(line: str) -> None:
  supervised = supervision.current()
  # The work goes on where a warning is an error, or the output is closed.
  with contextlib.suppress(RuntimeWarning, OSError):
    if supervised is None:
      warnings.warn(line, RuntimeWarning, stacklevel=2)
    else:
      supervised.say(line)
