"""Computes a round in parts, on any engine: where its calls are computed.

The sums of parts are merged in a fixed tree: groups of neighbours, and groups
of these. The last group is merged in the call that ends the phase.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow_federated as tff

from tff_fair.runtime import threads, values
from tff_fair.runtime.parts import cohort_cuts


class Engine(Protocol):
  """Computes calls, each in one worker, several at the same time if it can.

  A call is a function of its arguments. So an engine may repeat one whose
  worker is lost, in another worker, with the same result.
  """

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    """Hands over a value that several calls take."""

  def call(self, comp: tff.Computation, *args: Any) -> Awaitable[Any]:
    """Computes `comp(*args)` in any one worker.

    Args:
      comp: As TFF traced it. An engine is called with the same objects again
        and again; it compiles and sends each once.
      *args: The argument if there is one, as TFF's contexts take it, for a
        computation of the user's. For one of a `cohort_cuts.Phase` one for each
        element of its parameter: a value, what `put` or another `call`
        returned, or a `Struct` of such.

    Returns:
      What stands for the result as an argument of `call`, and for `fetch`.

    Raises:
      WorkerLostError: If there is no worker left.
    """

  async def fetch(self, result: Any) -> Any:
    """Returns the value of a `call`'s result, as TFF's contexts return it."""


# Parts that one call merges. More take long to compile, the more so for stacked
# updates; and so few sums wait at the same time.
MOST_MERGED = 8

# The number of a part, or a group of such.
_Node: TypeAlias = "int | Sequence[_Node]"


async def compute(
  engine: Engine,
  arg: tff.structure.Struct,
  phases: cohort_cuts.Phases,
  clients_per_part: int,
  *,
  in_turn: bool = False,
) -> Any:
  """Computes a computation on an engine, part by part."""
  args: Sequence[Any] = [*arg]
  first: Sequence[Any] | None = phases.ends.before(args)
  while first is not None:
    results: list[Any] = []
    for phase in phases:
      result = await _compute_phase(
        engine, phase, [*first, *results], clients_per_part, in_turn
      )
      results.append(await engine.fetch(result))
    first = phases.ends.again(first, results[-1])
  return phases.ends.after(args, results[-1])


async def _compute_phase(
  engine: Engine,
  phase: cohort_cuts.Phase,
  given: Sequence[Any],
  clients_per_part: int,
  in_turn: bool,
) -> Any:
  by_place: dict[bool, list[Any]] = {False: [], True: []}
  for value, at_clients in zip(given, phase.is_at_clients, strict=True):
    by_place[at_clients].append(value)
  server = await engine.put(_struct(by_place[False]), phase.server_type)
  no_clients = _struct([[] for _ in by_place[True]])
  parts = [
    _struct([values[i : i + clients_per_part] for values in by_place[True]])
    for i in range(0, len(by_place[True][0]), clients_per_part)
  ]
  sums = _Sums(engine, phase, server, parts, in_turn)
  tree = _tree(len(parts))
  return await engine.call(
    phase.finish(len(tree)), server, no_clients, await sums.of_each(tree)
  )


class _Sums:
  """What the parts of a phase sum.

  No function that refers to itself: with it, the worker's values would wait for
  Python's collector, and the worker for memory.
  """

  def __init__(
    self,
    engine: Engine,
    phase: cohort_cuts.Phase,
    server: Any,
    parts: Sequence[tff.structure.Struct],
    in_turn: bool,
  ) -> None:
    self._engine = engine
    self._phase = phase
    self._server = server
    self._parts = parts
    self._in_turn = in_turn

  async def of_each(self, nodes: Sequence[_Node]) -> tff.structure.Struct:
    if self._in_turn:
      return _struct([await self._of(node) for node in nodes])
    tasks = [asyncio.ensure_future(self._of(node)) for node in nodes]
    try:
      return _struct(await asyncio.gather(*tasks))
    finally:
      for task in tasks:  # One that fails ends the others.
        task.cancel()

  async def _of(self, node: _Node) -> Any:
    if not isinstance(node, int):
      sums = await self.of_each(node)
      return await self._engine.call(self._phase.merge(len(node)), sums)
    return await self._engine.call(
      self._phase.up_to_merge, self._server, self._parts[node]
    )


def _tree(num_parts: int) -> Sequence[_Node]:
  """Returns parts in groups, and these in groups, of neighbours.

  No group has a single member, and none more than `MOST_MERGED`.
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


class _Here:
  """Computes in the thread that calls, so that no await has to wait."""

  def __init__(
    self, call: Callable[[tff.Computation, Any], values.Computed]
  ) -> None:
    self._call = call

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    specs = values.DataSpecs()
    return values.Computed(values.ingested(value, type_spec, specs), type_spec)

  async def call(self, comp: tff.Computation, *args: Any) -> Any:
    return self._call(comp, joined(args))

  async def fetch(self, result: values.Computed) -> Any:
    return values.in_containers(result.value, result.type_spec)


def joined(args: Sequence[Any]) -> Any:
  """Returns the argument of a computation of these; `None` if there is none."""
  if len(args) > 1:
    return tff.structure.Struct.unnamed(*args)
  return args[0] if args else None


def compute_here(
  call: Callable[[tff.Computation, Any], values.Computed],
  arg: tff.structure.Struct,
  phases: cohort_cuts.Phases,
  clients_per_part: int,
) -> Any:
  """Computes a computation in this thread, part by part.

  The sums of a group of parts are merged before the next group is computed.
  """
  # Without an event loop, this works in a notebook, which has one already.
  return threads.finished(
    compute(_Here(call), arg, phases, clients_per_part, in_turn=True)
  )
