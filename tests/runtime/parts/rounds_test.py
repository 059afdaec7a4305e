"""Tests of the order in which parts are merged, on engines of pure Python."""

import asyncio
import random

import pytest
import tensorflow_federated as tff

from tff_fair.runtime.parts import local, rounds


class Phase:
  """A phase whose computations are their names."""

  is_at_clients = (False, True, True)
  server_type = None
  up_to_merge = "up_to_merge"

  def merge(self, num_parts):
    return f"merge {num_parts}"

  def finish(self, num_parts):
    return f"finish {num_parts}"


def called(comp, *args):
  """Returns the result of a call: its own name and its arguments."""
  return comp, *map(plain, args)


def plain(value):
  if isinstance(value, tff.structure.Struct):
    return tuple(map(plain, value))
  return tuple(value) if isinstance(value, list) else value


class Engine:
  """Answers its calls in an order of its own."""

  def __init__(self, seed):
    self._draw = random.Random(seed)

  async def put(self, value, type_spec):
    del type_spec
    return value

  async def call(self, comp, *args):
    for _ in range(self._draw.randrange(20)):
      await asyncio.sleep(0)
    return called(comp, *args)

  async def fetch(self, result):
    return result


def invoke(comp, arg):
  """Answers a call as the context of a local worker gets it."""
  return called(comp, *([arg] if comp.startswith("merge") else arg))


def argument(num_clients):
  clients = [*range(num_clients)]
  return tff.structure.Struct.unnamed("state", clients, [-k for k in clients])


def compute(engine, num_clients, clients_per_part, phases):
  return asyncio.run(
    rounds.compute(engine, phases, argument(num_clients), clients_per_part)
  )


@pytest.mark.parametrize("num_clients", [3, 33, 100])
def test_the_order_in_which_parts_are_there_decides_nothing(num_clients):
  phases = [Phase()]
  in_turn = local.compute(invoke, phases, argument(num_clients), 2)
  for seed in range(10):
    assert compute(Engine(seed), num_clients, 2, phases) == in_turn


def test_a_part_has_the_clients_of_each_argument_and_none_is_empty():
  assert local.compute(invoke, [Phase()], argument(4), 2) == (
    "finish 2",
    ("state",),
    ((), ()),
    (
      ("up_to_merge", ("state",), ((0, 1), (0, -1))),
      ("up_to_merge", ("state",), ((2, 3), (-2, -3))),
    ),
  )


def test_a_further_phase_takes_the_results_of_those_before():
  class Last(Phase):
    is_at_clients = (False, True, True, False)

  first = local.compute(invoke, [Phase()], argument(3), 2)
  last = local.compute(invoke, [Phase(), Last()], argument(3), 2)
  assert last[1] == ("state", first)


@pytest.mark.parametrize("num_parts", [*range(1, 40), 256, 257, 289, 1000])
def test_neighbours_are_merged_each_once(num_parts):
  calls = []

  def record(comp, arg):
    calls.append(comp)
    return invoke(comp, arg)

  result = local.compute(record, [Phase()], argument(num_parts), 1)
  merged = [call for call in calls if call != "up_to_merge"]
  assert calls.count("up_to_merge") == num_parts
  sizes = [int(call.split()[1]) for call in merged]
  assert all(2 <= size <= rounds.MOST_MERGED for size in sizes[:-1])
  assert 1 <= sizes[-1] <= rounds.MOST_MERGED
  # Each call but that of a part takes what others sum, and each sum is taken.
  assert sum(sizes) == num_parts + len(merged) - 1
  assert leaves(result[3]) == [*range(num_parts)]


def leaves(sums):
  """Returns the clients in sums, in the order in which they are merged."""
  found = []
  for comp, *args in sums:
    found += args[1][0] if comp == "up_to_merge" else leaves(args[0])
  return found


def test_few_sums_are_in_memory_at_the_same_time():
  alive = most = 0

  def count(comp, arg):
    nonlocal alive, most
    sums = {"up_to_merge": [], "finish": arg[-1]}.get(comp.split()[0], arg)
    alive += 1 - len(sums)
    most = max(most, alive)
    return comp

  local.compute(count, [Phase()], argument(1000), 1)
  assert alive == 1
  assert most <= 3 * rounds.MOST_MERGED


def test_a_call_that_fails_ends_the_others():
  class Failing(Engine):
    async def call(self, comp, *args):
      if args[1][0][0] == 3:
        raise RuntimeError("on purpose")
      try:
        await asyncio.sleep(60)
      except asyncio.CancelledError:
        ended.append(comp)
        raise

  ended = []
  with pytest.raises(RuntimeError, match="on purpose"):
    compute(Failing(0), 5, 1, [Phase()])
  assert len(ended) == 4
