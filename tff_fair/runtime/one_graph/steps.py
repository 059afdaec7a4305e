"""Reads a flat computation over clients as steps.

TFF's compiler leaves a list of intrinsics: to apply a function at the server or
at each client, to send a value from there to here, to aggregate. Each is a step
that takes the values of others. A step waits for as many loops over the clients
as there are aggregates on the longest way to it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow_federated as tff

from tff_fair.runtime.one_graph import inlining

# A step, or a tuple of placed values.
Placed: TypeAlias = Any

_APPLIES = ("federated_apply",)
_MAPS = ("federated_map", "federated_map_all_equal")
_ZIPS = ("federated_zip_at_server", "federated_zip_at_clients")
_SENDS = ("federated_broadcast", "federated_value_at_clients")
_STAYS = ("federated_value_at_server",)
_AGGREGATES = ("federated_aggregate",)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Step:
  """A value that a computation comes by.

  Attributes:
    type_spec: Its type, or that of each client's.
    at_clients: Whether each client has its own.
    loops: How many loops over the clients have run before it is known.
    sources: The steps whose values it takes.
    function: From these values to its own, for steps of this class.
  """

  type_spec: tff.Type
  at_clients: bool
  loops: int
  sources: Sequence[Step] = ()
  function: inlining.Function | None = None


class Argument(Step):
  """An argument of the computation."""


class Sent(Step):
  """A value of the server, which each client gets."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Summed(Step):
  """An aggregate of the clients' values, one after the other.

  Its sources are the client's value and the first accumulator.

  Attributes:
    accumulate: From an accumulator and a client's value to the next one.
  """

  accumulate: inlining.Function


@dataclasses.dataclass(frozen=True)
class Plan:
  """A computation as steps.

  Attributes:
    arguments: Those of the parameter, in the order of its placed parts.
    result: A step, or a tuple of such and of tuples.
  """

  arguments: Sequence[Argument]
  result: Placed

  @functools.cached_property
  def needed(self) -> Sequence[Step]:
    """The steps that lead to the result, each after its sources."""
    found: dict[Step, None] = {}

    def add(placed: Placed) -> None:
      members = placed.sources if isinstance(placed, Step) else placed
      if placed not in found:
        for member in members:
          add(member)
        if isinstance(placed, Step):
          found[placed] = None

    add(self.result)
    return [*found]


def read(message: inlining.Message) -> Plan:
  """Returns the steps of a computation.

  Args:
    message: A lambda as TFF's compiler for native workers leaves it, whose
      parameter is made of placed values.

  Raises:
    NotOneGraphError: If it has other intrinsics or anything that cannot be in
      one graph, does not sum over clients, or returns values at clients.
  """
  if message.WhichOneof("computation") != "lambda":
    raise inlining.NotOneGraphError("no argument")
  function = getattr(message, "lambda")
  parameter_type = tff.types.deserialize_type(message.type).parameter
  arguments: list[Argument] = []

  def place(type_spec: tff.Type) -> Placed:
    if isinstance(type_spec, tff.StructType):
      return tuple(map(place, type_spec))
    if not isinstance(type_spec, tff.FederatedType):
      raise inlining.NotOneGraphError("an argument without a place")
    at_clients = type_spec.placement is tff.CLIENTS
    if at_clients and type_spec.all_equal:
      raise inlining.NotOneGraphError("one argument for all clients")
    arguments.append(Argument(type_spec.member, at_clients, loops=0))
    return arguments[-1]

  placed = place(parameter_type)
  result = _read(function.result, {function.parameter_name: placed})
  plan = Plan(arguments, result)
  if not any(isinstance(step, Summed) for step in plan.needed):
    raise inlining.NotOneGraphError("no sum over clients")
  if _is_at_clients(result):
    raise inlining.NotOneGraphError("results at clients")
  return plan


def _is_at_clients(placed: Placed) -> bool:
  if isinstance(placed, Step):
    return placed.at_clients
  return any(map(_is_at_clients, placed))


def _read(message: inlining.Message, known: Mapping[str, Placed]) -> Placed:
  """Returns the steps that an expression stands for."""
  return inlining.expression(message, known, _read_call)


def _read_call(message: inlining.Message, known: Mapping[str, Placed]) -> Step:
  type_spec = tff.types.deserialize_type(message.type)
  call = message.call
  if call.function.WhichOneof("computation") == "intrinsic":
    return _read_intrinsic(call, type_spec.member, known)
  # Of no place; the first accumulator is such a value.
  args = [call.argument] if call.HasField("argument") else []
  sources = [_joined(_read(arg, known)) for arg in args]
  return _applied(inlining.function_of(call.function, {}), sources, type_spec)


def _read_intrinsic(
  call: Any, member: tff.Type, known: Mapping[str, Placed]
) -> Step:
  uri, argument = call.function.intrinsic.uri, call.argument
  if uri in (*_ZIPS, *_STAYS):
    return _joined(_read(argument, known))
  if uri in _SENDS:
    source = _joined(_read(argument, known))
    return Sent(source.type_spec, True, source.loops, [source])
  if uri in (*_APPLIES, *_MAPS):
    function, value = _elements(argument, 2)
    return _applied(
      inlining.function_of(function, {}), [_joined(_read(value, known))], member
    )
  if uri in _AGGREGATES:
    value, zero, accumulate, _, report = _elements(argument, 5)
    summed = _summed(
      _joined(_read(value, known)), _joined(_read(zero, known)), accumulate
    )
    return _applied(inlining.function_of(report, {}), [summed], member)
  raise inlining.NotOneGraphError(f"intrinsic {uri}")


def _elements(argument: inlining.Message, number: int) -> Sequence[Any]:
  elements = [element.value for element in argument.struct.element]
  if len(elements) != number:
    raise inlining.NotOneGraphError("arguments in another form")
  return elements


def _applied(
  function: inlining.Function, sources: Sequence[Step], type_spec: tff.Type
) -> Step:
  return Step(
    type_spec,
    any(source.at_clients for source in sources),
    max((source.loops for source in sources), default=0),
    sources,
    function,
  )


def _joined(placed: Placed) -> Step:
  """Returns several steps as one, whose value is a tuple."""
  if isinstance(placed, Step):
    return placed
  sources = [*map(_joined, placed)]
  type_spec = tff.StructType([source.type_spec for source in sources])
  return _applied(lambda *values: values, sources, type_spec)


def _summed(value: Step, zero: Step, accumulate: inlining.Message) -> Summed:
  if zero.loops:
    raise inlining.NotOneGraphError("a first accumulator that is a sum")
  accumulator_type, _ = tff.types.deserialize_type(accumulate.type).parameter
  return Summed(
    accumulator_type,
    False,
    value.loops + 1,
    [value, zero],
    accumulate=inlining.function_of(accumulate, {}),
  )
