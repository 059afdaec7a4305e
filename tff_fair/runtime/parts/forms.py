"""The forms in which a computation can be cut into parts."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair import phases


class Phase:
  """A computation in which no sum depends on another, cut for parts.

  Its parameter is cut in two: what is at the server, and what is at clients.

  Attributes:
    server_type: The arguments at the server, in their order.
    clients_type: The arguments at clients, likewise.
    is_at_clients: For each argument whether it is at clients.
    up_to_merge: From the server's and one part's arguments to what was summed
      of that part, at the server.
  """

  def __init__(self, comp: tff.Computation) -> None:
    """Compiles a computation.

    Raises:
      ValueError: If one of its sums depends on another.
    """
    form = tff.backends.native.compile_to_mergeable_comp_form(comp)
    parameter = comp.type_signature.parameter
    names = tff.structure.name_list_with_nones(parameter)
    self.is_at_clients = [
      element.placement is tff.CLIENTS for element in parameter
    ]
    self.server_type, self.clients_type = (
      tff.StructType(
        [
          element
          for element, at_clients in zip(
            parameter, self.is_at_clients, strict=True
          )
          if at_clients is wanted
        ]
      )
      for wanted in (False, True)
    )
    self._form = form

    def original(server: Any, clients: Any) -> Any:
      sources = {False: iter(server), True: iter(clients)}
      return tff.structure.Struct(
        [
          (name, next(sources[at_clients]))
          for name, at_clients in zip(names, self.is_at_clients, strict=True)
        ]
      )

    self._original = original

    @tff.federated_computation(self.server_type, self.clients_type)
    def up_to_merge(server: Any, clients: Any) -> Any:
      return form.up_to_merge(original(server, clients))

    self.up_to_merge = up_to_merge
    self._merged_type = up_to_merge.type_signature.result

  @functools.cached_property
  def _by_number(self) -> dict[tuple[str, int], tff.Computation]:
    return {}

  def merge(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges so many parts, in their order.

    Args:
      num_parts: 2 or more.

    Returns:
      From a structure of what was summed of each part to the same of all.
    """
    key = ("merge", num_parts)
    if key not in self._by_number:

      @tff.federated_computation([self._merged_type] * num_parts)
      def merge(parts: Any) -> Any:
        return self._merged(parts)

      self._by_number[key] = merge
    return self._by_number[key]

  def finish(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges so many parts and ends the phase.

    Args:
      num_parts: 1 or more.

    Returns:
      From the server's arguments, those at clients, of which there are none,
      and a structure of what was summed of each part to the result.
    """
    key = ("finish", num_parts)
    if key not in self._by_number:

      @tff.federated_computation(
        self.server_type, self.clients_type, [self._merged_type] * num_parts
      )
      def finish(server: Any, clients: Any, parts: Any) -> Any:
        return self._form.after_merge(
          self._original(server, clients), self._merged(parts)
        )

      self._by_number[key] = finish
    return self._by_number[key]

  def _merged(self, parts: Any) -> Any:
    """Returns what was summed of all parts, at the server."""

    @tff.federated_computation([self._merged_type.member] * len(parts))
    def merge_all(summed: Any) -> Any:
      remaining: Sequence[Any] = [*summed]
      while len(remaining) > 1:  # Neighbours first.
        pairs = [remaining[i : i + 2] for i in range(0, len(remaining), 2)]
        remaining = [
          self._form.merge(*pair) if len(pair) == 2 else pair[0]
          for pair in pairs
        ]
      return remaining[0]

    return tff.federated_map(merge_all, tff.federated_zip([*parts]))


_known: weakref.WeakKeyDictionary[tff.Computation, tuple[Phase, ...] | None] = (
  weakref.WeakKeyDictionary()
)


def phases_of(comp: tff.Computation) -> tuple[Phase, ...] | None:
  """Returns the phases into which a computation is cut.

  Returns:
    The phases; `None` if it cannot be cut, and is one part.
  """
  if comp not in _known:
    _known[comp] = _compile(comp)
  return _known[comp]


def num_clients(comp: tff.Computation, arg: Any) -> int:
  """Returns the number of clients in the arguments of a computation.

  Args:
    comp: The computation.
    arg: Its argument, as TFF hands it to a context.
  """
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType):
    return 0
  values = tff.structure.from_container(arg)
  return max(
    (
      len(value)
      for element, value in zip(parameter, values, strict=True)
      if isinstance(element, tff.FederatedType)
      and element.placement is tff.CLIENTS
      and isinstance(value, (list, tuple))
    ),
    default=0,
  )


def _compile(comp: tff.Computation) -> tuple[Phase, ...] | None:
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or not all(
    isinstance(element, tff.FederatedType) for element in parameter
  ):
    return None
  given = comp.phases if isinstance(comp, phases.PhasedComputation) else [comp]
  try:
    return tuple(map(Phase, given))
  except ValueError:
    return None
