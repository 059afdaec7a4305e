"""Reads a compiled computation over clients as steps.

A compiled computation calls intrinsics, which apply a function at the server or
at each client, send a value from the server to the clients, or aggregate. Each
call is a step that takes the values of other steps. A step waits for as many
loops over the clients as there are aggregates on the longest path from an
argument to the step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import tensorflow_federated as tff

from tff_fair.runtime import admission
from tff_fair.runtime.one_graph import inlining

# A step, or a nested tuple of steps.
Placed: TypeAlias = Any

_APPLY_INTRINSICS = (
  "federated_apply",
  "federated_map",
  "federated_map_all_equal",
)
_IN_PLACE_INTRINSICS = (
  *("federated_zip_at_server", "federated_zip_at_clients"),
  "federated_value_at_server",
)
_BROADCAST_INTRINSICS = ("federated_broadcast", "federated_value_at_clients")
_EVAL_INTRINSICS = ("federated_eval_at_server", "federated_eval_at_clients")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Step:
  """A value that a computation takes or computes.

  Attributes:
    type_spec: The type of the value, or of each client's value.
    at_clients: Whether each client has its own value.
    loops: How many loops over the clients must run before the value is known.
    sources: The steps from whose values the value is computed.
    function: The serialized function that computes the value, if any.
  """

  type_spec: tff.Type
  at_clients: bool
  loops: int
  sources: Sequence[Step] = ()
  function: admission.Message | None = None


_Step = TypeVar("_Step", bound=Step)


class Argument(Step):
  """An argument of the computation."""


class Broadcast(Step):
  """A value that the server sends to each client."""


class Zip(Step):
  """A tuple of the values of its sources."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Selection(Step):
  """The element `index` of the value of its source."""

  index: int = 0


class FunctionCall(Step):
  """The result of a function, applied to the step's source if it has one."""


class Aggregation(Step):
  """An aggregate that adds the clients' values one after another.

  Its sources are the client's value and the first accumulator; its function
  takes an accumulator and a client's value, and returns the next accumulator.
  """


@dataclasses.dataclass(frozen=True)
class Plan:
  """A computation's arguments as steps, and its result as steps in tuples."""

  arguments: Sequence[Argument]
  result: Placed

  @functools.cached_property
  def needed_steps(self) -> Sequence[Step]:
    """The steps on which the result depends, each after its sources."""
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


def read(message: admission.Message) -> Plan:
  """Returns a computation's plan, or raises `NotAdmittedError`."""
  if message.WhichOneof("computation") != "lambda":
    raise admission.NotAdmittedError("no argument")
  function = getattr(message, "lambda")
  parameter_type = tff.types.deserialize_type(message.type).parameter
  arguments: list[Argument] = []

  def place(type_spec: tff.Type) -> Placed:
    if isinstance(type_spec, tff.StructType):
      return tuple(map(place, type_spec))
    if not isinstance(type_spec, tff.FederatedType):
      raise admission.NotAdmittedError("an argument without a place")
    at_clients = type_spec.placement is tff.CLIENTS
    if at_clients and type_spec.all_equal:
      raise admission.NotAdmittedError("one argument for all clients")
    arguments.append(Argument(type_spec.member, at_clients, loops=0))
    return arguments[-1]

  placed = place(parameter_type)
  result = _read(function.result, {function.parameter_name: placed})
  plan = Plan(arguments, result)
  if not any(isinstance(step, Aggregation) for step in plan.needed_steps):
    raise admission.NotAdmittedError("no sum over clients")
  if _is_at_clients(result):
    raise admission.NotAdmittedError("results at clients")
  return plan


def check_works_as_one_graph(plan: Plan) -> None:
  """Checks that a computation has the same result if it runs as one graph."""
  for step in plan.needed_steps:
    if step.function is not None:
      admission.check_function_runs_once(step.function)


def check_makes_no_data(plan: Plan) -> None:
  """Checks that no function returns a dataset for other functions to read."""
  for step in plan.needed_steps:
    if isinstance(step, FunctionCall) and any(
      isinstance(leaf, tff.SequenceType)
      for leaf in inlining.leaf_types(step.type_spec)
    ):
      raise admission.NotAdmittedError("data made of data that are read anew")


def check_works_in_parts(plan: Plan) -> None:
  """Checks that a computation has the same result if it runs in parts."""
  for step in plan.needed_steps:
    if not step.at_clients and step.loops == 0 and step.function is not None:
      admission.check_function(step.function)


def _is_at_clients(placed: Placed) -> bool:
  if isinstance(placed, Step):
    return placed.at_clients
  return any(map(_is_at_clients, placed))


def _read(message: admission.Message, known: inlining.Bindings) -> Placed:
  """Returns the step, or the tuple of steps, for a placed expression."""
  return inlining.evaluate(message, known, _read_call, _select)


def _select(source: Step, index: int) -> Step:
  return _computed(Selection, source.type_spec[index], [source], index=index)


def _read_call(message: admission.Message, known: inlining.Bindings) -> Placed:
  kind = message.WhichOneof("computation")
  if kind not in ("call", "literal"):
    raise admission.NotAdmittedError(f"an expression of kind {kind}")
  type_spec = tff.types.deserialize_type(message.type)
  if kind == "literal":
    return _call_function(message, [], type_spec)
  call = message.call
  kind = call.function.WhichOneof("computation")
  if kind == "intrinsic":
    return _read_intrinsic(call, type_spec.member, known)
  args = [call.argument] if call.HasField("argument") else []
  placed = [_read(arg, known) for arg in args]
  # TFF's compiler does not inline lambdas if there are random operations.
  if kind == "lambda":
    function = getattr(call.function, "lambda")
    named = [(function.parameter_name, arg) for arg in placed]
    return _read(function.result, {**known, **dict(named)})
  # The call returns a value without a placement, such as the first accumulator.
  return _call_function(call.function, [*map(_zip, placed)], type_spec)


def _read_intrinsic(
  call: Any, member: tff.Type, known: inlining.Bindings
) -> Step:
  uri, argument = call.function.intrinsic.uri, call.argument
  if uri in _IN_PLACE_INTRINSICS:
    return _zip(_read(argument, known))
  if uri in _EVAL_INTRINSICS:
    result = _call_function(argument, [], member)
    if not uri.endswith("clients"):
      return result
    admission.check_function(argument)  # All clients share one result.
    return _broadcast(result)
  if uri in _BROADCAST_INTRINSICS:
    return _broadcast(_zip(_read(argument, known)))
  if uri in _APPLY_INTRINSICS:
    function, value = _elements(argument, 2)
    return _call_function(function, [_zip(_read(value, known))], member)
  if uri == "federated_aggregate":
    value, zero, accumulate, _, report = _elements(argument, 5)
    summed = _aggregate(
      _zip(_read(value, known)), _zip(_read(zero, known)), accumulate
    )
    return _call_function(report, [summed], member)
  raise admission.NotAdmittedError(f"intrinsic {uri}")


def _elements(argument: admission.Message, number: int) -> Sequence[Any]:
  elements = [element.value for element in argument.struct.element]
  if len(elements) != number:
    raise admission.NotAdmittedError("arguments in another form")
  return elements


def _call_function(
  function: admission.Message, sources: Sequence[Step], type_spec: tff.Type
) -> FunctionCall:
  return _computed(FunctionCall, type_spec, sources, function=function)


def _broadcast(source: Step) -> Broadcast:
  return Broadcast(source.type_spec, True, source.loops, [source])


def _zip(placed: Placed) -> Step:
  """Combines a tuple of steps into one step; returns a single step as it is."""
  if isinstance(placed, Step):
    return placed
  sources = [*map(_zip, placed)]
  type_spec = tff.StructType([source.type_spec for source in sources])
  return _computed(Zip, type_spec, sources)


def _computed(
  kind: type[_Step], type_spec: tff.Type, sources: Sequence[Step], **fields: Any
) -> _Step:
  """Returns a computed step, at clients if any of its sources is at clients."""
  at_clients = any(source.at_clients for source in sources)
  loops = max((source.loops for source in sources), default=0)
  return kind(type_spec, at_clients, loops, sources, **fields)


def _aggregate(
  value: Step, zero: Step, accumulate: admission.Message
) -> Aggregation:
  if zero.loops:
    raise admission.NotAdmittedError("a first accumulator that is a sum")
  accumulator_type, _ = tff.types.deserialize_type(accumulate.type).parameter
  return Aggregation(
    accumulator_type, False, value.loops + 1, [value, zero], accumulate
  )
