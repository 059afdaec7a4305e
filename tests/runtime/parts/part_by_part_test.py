"""Tests of the order in which parts are merged, on engines of pure Python."""

import gc
import weakref
from typing import Any

import pytest
import tensorflow_federated as tff

from tff_fair.runtime.parts import cohort_cuts, part_by_part

pytestmark = pytest.mark.pure


class Phase:
  """A phase whose computations are only names."""

  is_at_clients: tuple[bool, ...] = (False, True, True)
  server_type = None
  up_to_merge = "up_to_merge"

  def merge(self, num_parts):
    return f"merge {num_parts}"

  def finish(self, num_parts):
    return f"finish {num_parts}"


def called(comp, *args):
  """Returns a record of a call: its computation and its arguments."""
  return comp, *map(plain, args)


class InTurn:
  """An engine that calls `answer` at once for each call."""

  def __init__(self, answer=called):
    self._answer = answer

  def put(self, value, type_spec):
    del type_spec
    return value

  def call(self, comp, *args):
    return self._answer(comp, *args)

  def fetch(self, result):
    return result


def plain(value):
  if isinstance(value, tff.structure.Struct):
    return tuple(map(plain, value))
  return tuple(value) if isinstance(value, list) else value


def phase(kind=Phase) -> Any:
  return kind()


def argument(num_clients):
  clients = [*range(num_clients)]
  return tff.structure.Struct.unnamed("state", clients, [-k for k in clients])


def in_turn(num_clients, clients_per_part, engine=None, *, more=()):
  return part_by_part.compute(
    engine or InTurn(),
    argument(num_clients),
    cohort_cuts.Phases([phase(), *more]),
    clients_per_part,
  )


def test_a_part_has_the_clients_of_each_argument_and_none_is_empty():
  assert in_turn(4, 2) == (
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

  first = in_turn(3, 2)
  assert in_turn(3, 2, more=[phase(Last)])[1] == ("state", first)


@pytest.mark.parametrize("num_parts", [2, 8, 9, 10, 17, 64, 65, 73])
def test_neighbours_are_merged_each_once(num_parts):
  calls = []

  def record(comp, *args):
    calls.append(comp)
    return called(comp, *args)

  result = in_turn(num_parts, 1, InTurn(record))
  merged = [call for call in calls if call != "up_to_merge"]
  assert calls.count("up_to_merge") == num_parts
  sizes = [int(call.split()[1]) for call in merged]
  assert all(2 <= size <= part_by_part.MOST_MERGED for size in sizes[:-1])
  assert 1 <= sizes[-1] <= part_by_part.MOST_MERGED
  # Each merge takes sums of earlier calls; all sums but the last are merged.
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

  def count(comp, *args):
    nonlocal alive, most
    alive += 1 - (0 if comp == "up_to_merge" else len(args[-1]))
    most = max(most, alive)
    return comp

  in_turn(1000, 1, InTurn(count))
  assert alive == 1
  assert most <= 4 * part_by_part.MOST_MERGED


@pytest.mark.parametrize("num_parts", [1, 3, 73])
def test_nothing_waits_for_the_collector(num_parts):
  class Value:
    """The object that a worker keeps for a value of the program."""

  class Keeps(InTurn):
    def put(self, value, type_spec):
      del value, type_spec
      put.append(weakref.ref(found := Value()))
      return found

  put: list[weakref.ref[Value]] = []
  gc.disable()
  try:
    in_turn(num_parts, 1, Keeps(lambda comp, *_: comp))
    assert [ref() for ref in put] == [None]
  finally:
    gc.enable()
