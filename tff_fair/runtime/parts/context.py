"""A context that computes on an engine of several workers."""

import concurrent.futures
import functools
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import connections, label_errors, supervision, threads
from tff_fair.runtime.parts import cohort_cuts, part_by_part
from tff_fair.runtime.parts import engine as engines


class PartsContext(tff.framework.SyncContext):
  """Computes cohorts of more clients than a part has in parts.

  Anything else is one call: smaller cohorts, and computations that cannot be
  cut. It gives the same result in whichever worker.
  """

  def __init__(self, engine: engines.Engine, clients_per_part: int) -> None:
    """Takes the engine.

    Args:
      engine: Computes the calls.
      clients_per_part: The size of parts; 0 never cuts.
    """
    self._engine = engine
    self._clients_per_part = clients_per_part
    self._is_closed = False
    self._thread = threads.LoopThread()

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`.

    Raises:
      ValueError: If a client has a label that the model has no output for.
      WorkerLostError: If no worker is left, or it takes too long.
    """
    compute = functools.partial(self._invoke, comp)
    return label_errors.explained(compute, arg)

  def _invoke(self, comp: Any, arg: Any) -> Any:
    supervised = supervision.current()
    if supervised is not None:
      supervised.check()
    future = self.submit(comp, arg)
    try:
      if supervised is None:
        return future.result()
      return supervision.wait(future, supervised, _tell_of_silence)
    except BaseException:
      future.cancel()  # The caller no longer waits for it.
      raise

  def submit(self, comp: Any, arg: Any) -> concurrent.futures.Future[Any]:
    """Starts to compute `comp(arg)`; returns the result to come."""
    if self._is_closed:
      raise RuntimeError(connections.NO_WORKERS)
    return self._thread.submit(self._compute(comp, arg))

  async def _compute(self, comp: Any, arg: Any) -> Any:
    cut = cohort_cuts.cut(comp, arg, self._clients_per_part)
    if cut is None:
      args = [] if comp.type_signature.parameter is None else [arg]
      return await self._engine.fetch(await self._engine.call(comp, *args))
    return await part_by_part.compute(
      self._engine, cut.phases, arg, cut.clients_per_part
    )

  def close(self, *, patience: float = 0.0) -> None:
    """Ends the thread, and waits so many seconds for it."""
    self._is_closed = True
    self._thread.close(patience=patience)


def _tell_of_silence(seconds: float) -> None:
  raise supervision.WorkerLostError(
    f"the workers did not answer for {seconds:.0f} s"
  )
