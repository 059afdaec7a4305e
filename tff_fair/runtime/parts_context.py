"""The context that computes large cohorts in parts, on any engine."""

from __future__ import annotations

from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import native, supervision, threads
from tff_fair.runtime.parts import cohort_cuts, part_by_part

CLOSED_MESSAGE = (
  "There is nothing to compute with: the context was stopped, or replaced in "
  "another thread. Call `tff_fair.runtime.use_local`."
)


class PartsContext(tff.framework.SyncContext):
  """Computes in parts each cohort that has more clients than a part."""

  def __init__(
    self,
    engine: part_by_part.Engine,
    clients_per_part: int,
    *,
    simulate_secure_sums: bool,
  ) -> None:
    """Takes the engine, and the maximum clients per part; 0 never cuts."""
    self._engine = engine
    self._clients_per_part = clients_per_part
    self._with_sums = native.secure_sum_transform(simulate_secure_sums)
    self._is_closed = False

  def close(self) -> None:
    """Refuses further calls."""
    self._is_closed = True

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    if self._is_closed:
      raise RuntimeError(CLOSED_MESSAGE)
    return supervision.wait(threads.Call(lambda: self._compute(comp, arg)))

  def _compute(self, comp: tff.Computation, arg: Any) -> Any:
    called = self._with_sums(comp)
    cut = self._cut(comp, arg)
    if cut is None:
      return self._engine.fetch(self._engine.call(called, arg))
    return part_by_part.compute(self._engine, arg, *cut)

  def _cut(
    self, comp: tff.Computation, arg: Any
  ) -> tuple[cohort_cuts.Phases, int] | None:
    return cohort_cuts.cut(comp, arg, self._clients_per_part)
