"""Computes rounds with large cohorts in parts, on any engine.

The sums of parts are merged in a fixed tree, by groups of neighbours, until few
sums remain. The call that ends the phase merges the remaining sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow_federated as tff

from tff_fair.runtime import native, supervision, threads
from tff_fair.runtime.parts import cohort_cuts

CLOSED_MESSAGE = (
  "There is nothing to compute with: the context was stopped, or replaced in "
  "another thread. Call `tff_fair.runtime.use_local`."
)


class Engine(Protocol):
  """Computes calls; may repeat a call if its worker is lost."""

  def put(self, value: Any, type_spec: tff.Type) -> Any:
    """Returns a handle for a value that several calls take."""

  def call(self, comp: tff.Computation, *args: Any) -> Any:
    """Computes `comp(*args)`, or starts to compute it.

    Returns a handle for the result, which `call` and `fetch` accept. An engine
    gets the same `comp` repeatedly, and compiles and sends it only once. A
    user's computation has one argument, as in TFF's contexts. A computation of
    a `cohort_cuts.Phase` has one argument for each element of its parameter: a
    value, a handle from `put` or another `call`, or a `Struct` of values and
    handles.
    """

  def fetch(self, result: Any) -> Any:
    """Returns the value of a `call`'s result, as TFF's contexts return it."""


class PartsContext(tff.framework.SyncContext):
  """A context that computes large cohorts part by part on an engine."""

  def __init__(
    self,
    engine: Engine,
    clients_per_part: int,
    *,
    simulate_secure_sums: bool,
  ) -> None:
    """Takes the engine, and the most clients in a part; 0 never cuts."""
    self._engine = engine
    self._clients_per_part = clients_per_part
    self._with_sums = native.secure_sum_transform(simulate_secure_sums)
    self._is_closed = False

  def close(self) -> None:
    """Makes the context refuse further calls."""
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
    return compute(self._engine, arg, *cut)

  def _cut(
    self, comp: tff.Computation, arg: Any
  ) -> tuple[cohort_cuts.Phases, int] | None:
    return cohort_cuts.cut(comp, arg, self._clients_per_part)


# The most sums that one call merges. A call that merged more would take long to
# compile, especially for stacked updates, and more sums would wait for it.
MOST_MERGED = 8

# The number of a part, or a group of nodes.
_Node: TypeAlias = "int | Sequence[_Node]"


def compute(
  engine: Engine,
  arg: tff.structure.Struct,
  phases: cohort_cuts.Phases,
  clients_per_part: int,
) -> Any:
  """Computes the phases of a computation on an engine, part by part."""
  args: Sequence[Any] = [*arg]
  first: Sequence[Any] | None = phases.conversions.first_arguments(args)
  while first is not None:
    results: list[Any] = []
    for phase in phases:
      given = [*first, *results]
      result = _compute_phase(engine, phase, given, clients_per_part)
      results.append(engine.fetch(result))
    first = phases.conversions.retry_arguments(first, results[-1])
  return phases.conversions.final_result(args, results[-1])


def _compute_phase(
  engine: Engine,
  phase: cohort_cuts.Phase,
  given: Sequence[Any],
  clients_per_part: int,
) -> Any:
  by_place: dict[bool, list[Any]] = {False: [], True: []}
  for value, at_clients in zip(given, phase.is_at_clients, strict=True):
    by_place[at_clients].append(value)
  server = engine.put(_struct(by_place[False]), phase.server_type)
  no_clients = _struct([[] for _ in by_place[True]])
  parts = [
    _struct([values[i : i + clients_per_part] for values in by_place[True]])
    for i in range(0, len(by_place[True][0]), clients_per_part)
  ]
  tree = _tree(len(parts))
  sums = _struct([_sum(engine, phase, server, parts, node) for node in tree])
  return engine.call(phase.finish(len(tree)), server, no_clients, sums)


def _sum(
  engine: Engine,
  phase: cohort_cuts.Phase,
  server: Any,
  parts: Sequence[tff.structure.Struct],
  node: _Node,
) -> Any:
  """Returns the sum of a part or group; sums a group's members in order."""
  if isinstance(node, int):
    return engine.call(phase.up_to_merge, server, parts[node])
  sums = _struct([_sum(engine, phase, server, parts, each) for each in node])
  return engine.call(phase.merge(len(node)), sums)


def _tree(num_parts: int) -> Sequence[_Node]:
  """Returns the parts in nested groups of neighbours.

  Each group has at least two members, and at most `MOST_MERGED`.
  """
  nodes: Sequence[_Node] = range(num_parts)
  while len(nodes) > MOST_MERGED:
    groups = [
      nodes[start : start + MOST_MERGED]
      for start in range(0, len(nodes), MOST_MERGED)
    ]
    nodes = [group[0] if len(group) == 1 else group for group in groups]
  return nodes


def _struct(values: Sequence[Any]) -> tff.structure.Struct:
  return tff.structure.Struct.unnamed(*values)


def pack_arguments(args: Sequence[Any]) -> Any:
  """Returns a call's `args` as one argument: the only one, or a `Struct`."""
  return args[0] if len(args) == 1 else _struct(args)
