"""Computes on an engine with several workers, with the same result in any."""

from __future__ import annotations

import asyncio
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import local_context, native, supervision, threads
from tff_fair.runtime.parts import cohort_cuts, part_by_part


class PartsContext(tff.framework.SyncContext):
  """Computes cohorts of more clients than a part has in parts.

  Anything else is one call: smaller cohorts, and computations that cannot be
  cut.
  """

  def __init__(
    self,
    engine: part_by_part.Engine,
    clients_per_part: int,
    *,
    simulate_secure_sums: bool,
  ) -> None:
    """Takes the engine."""
    self._engine = engine
    self._clients_per_part = clients_per_part
    self._with_sums = native.with_sums(simulate_secure_sums)
    self._is_closed = False

  def close(self) -> None:
    """Refuses further calls."""
    self._is_closed = True

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    if self._is_closed:
      raise RuntimeError(local_context.CLOSED)

    def compute() -> Any:
      with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(self._compute(comp, arg))

        def cancel() -> None:
          loop.call_soon_threadsafe(task.cancel)

        with threads.cancelled_by(cancel):
          return loop.run_until_complete(task)

    return supervision.wait(threads.Call(compute))

  async def _compute(self, comp: Any, arg: Any) -> Any:
    called = self._with_sums(comp)
    cut = cohort_cuts.cut(comp, arg, self._clients_per_part)
    if cut is None:
      args = [] if comp.type_signature.parameter is None else [arg]
      return await self._engine.fetch(await self._engine.call(called, *args))
    return await part_by_part.compute(self._engine, arg, *cut)
