"""Computes a round in parts, on any engine."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime.parts import engine as engines
from tff_fair.runtime.parts import forms

# Parts that one call merges; what they sum is in one message then.
MOST_MERGED = 16


async def compute(
  engine: engines.Engine,
  phases: Sequence[forms.Phase],
  arg: tff.structure.Struct,
  clients_per_part: int,
) -> Any:
  """Computes a computation on an engine, part by part.

  Args:
    engine: Where to compute.
    phases: Those of the computation.
    arg: Its arguments, one for each element of its parameter.
    clients_per_part: The size of the parts; the last one may be smaller.

  Returns:
    The result.
  """
  results: list[Any] = []
  for phase in phases:
    given = [*arg, *results]
    result = await _compute_phase(engine, phase, given, clients_per_part)
    results.append(await engine.fetch(result))
  return results[-1]


async def _compute_phase(
  engine: engines.Engine,
  phase: forms.Phase,
  given: Sequence[Any],
  clients_per_part: int,
) -> Any:
  by_place: dict[bool, list[Any]] = {False: [], True: []}
  for value, at_clients in zip(given, phase.is_at_clients, strict=True):
    by_place[at_clients].append(value)
  server = await engine.put(
    tff.structure.Struct.unnamed(*by_place[False]), phase.server_type
  )
  summed = [
    engine.call(phase.up_to_merge, server, part)
    for part in _parts(by_place[True], clients_per_part)
  ]
  nobody = tff.structure.Struct.unnamed(*([] for _ in by_place[True]))
  while len(summed) > MOST_MERGED:
    # The groups are fixed, so one is merged as soon as its parts are there.
    summed = [
      _merge(engine, phase, group) for group in _groups(summed, MOST_MERGED)
    ]
  parts = tff.structure.Struct.unnamed(*await asyncio.gather(*summed))
  return await engine.call(phase.finish(len(summed)), server, nobody, parts)


async def _merge(
  engine: engines.Engine,
  phase: forms.Phase,
  group: Sequence[Coroutine[Any, Any, Any]],
) -> Any:
  parts = await asyncio.gather(*group)
  if len(parts) == 1:
    return parts[0]
  merge = phase.merge(len(parts))
  return await engine.call(merge, tff.structure.Struct.unnamed(*parts))


def _parts(
  by_argument: Sequence[Sequence[Any]], clients_per_part: int
) -> Iterator[tff.structure.Struct]:
  for start in range(0, len(by_argument[0]), clients_per_part):
    stop = start + clients_per_part
    yield tff.structure.Struct.unnamed(*(v[start:stop] for v in by_argument))


def _groups(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
  for start in range(0, len(items), size):
    yield items[start : start + size]
