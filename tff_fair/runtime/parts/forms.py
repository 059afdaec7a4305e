"""The forms in which a computation can be cut into parts.

TFF's mergeable form of a computation has three: one up to what a part's clients
sum, one that merges the sums of two parts, and one from the sums of all parts
to the result. TFF takes a second to find them, so a phase looks for them where
no earlier program has kept what is made of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair import phases
from tff_fair.runtime import native


class Phase:
  """A computation in which no sum depends on another, cut for parts.

  Its parameter is cut in two: what is at the server, and what is at clients.

  Attributes:
    server_type: The arguments at the server, in their order.
    clients_type: The arguments at clients, likewise.
    is_at_clients: For each argument whether it is at clients.
  """

  def __init__(
    self,
    parameter: tff.StructType,
    form: Callable[[], Any],
    keep: Callable[
      [str, Callable[[], tff.Computation]], tff.Computation
    ] = lambda _, build: build(),
  ) -> None:
    """Takes what the forms are made of.

    Args:
      parameter: That of the computation; each element is at a placement.
      form: Returns TFF's mergeable form of the computation.
      keep: Returns a computation by its name, from that which builds it.
    """
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
    self._names = tff.structure.name_list_with_nones(parameter)
    self._form = functools.cache(form)
    self._keep = keep
    # Engines know a computation by the object.
    self.merge = functools.cache(self._merge)
    self.finish = functools.cache(self._finish)

  @functools.cached_property
  def up_to_merge(self) -> tff.Computation:
    """From the server's and one part's arguments to what the part sums.

    What it sums is at the server.
    """

    def build() -> tff.Computation:
      form = self._form()

      @tff.federated_computation(self.server_type, self.clients_type)
      def up_to_merge(server: Any, clients: Any) -> Any:
        return form.up_to_merge(self._original(server, clients))

      return up_to_merge

    return self._keep("up_to_merge", build)

  @property
  def _sum_type(self) -> tff.FederatedType:
    return self.up_to_merge.type_signature.result

  def _merge(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges the sums of parts, in their order.

    Args:
      num_parts: 2 or more.

    Returns:
      From a structure of what each part sums to what all of them sum.
    """

    def build() -> tff.Computation:
      @tff.federated_computation([self._sum_type] * num_parts)
      def merge(parts: Any) -> Any:
        return self._merged(parts)

      return merge

    return self._keep(f"merge {num_parts}", build)

  def _finish(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges parts and ends the phase.

    Args:
      num_parts: 1 or more.

    Returns:
      From the server's arguments, those at clients, of which there are none,
      and a structure of what each part sums to the result.
    """

    def build() -> tff.Computation:
      form = self._form()

      @tff.federated_computation(
        self.server_type, self.clients_type, [self._sum_type] * num_parts
      )
      def finish(server: Any, clients: Any, parts: Any) -> Any:
        return form.after_merge(
          self._original(server, clients), self._merged(parts)
        )

      return finish

    return self._keep(f"finish {num_parts}", build)

  def _original(self, server: Any, clients: Any) -> Any:
    """Returns the argument of the computation before it was cut."""
    sources = {False: iter(server), True: iter(clients)}
    return tff.structure.Struct(
      [
        (name, next(sources[at_clients]))
        for name, at_clients in zip(
          self._names, self.is_at_clients, strict=True
        )
      ]
    )

  def _merged(self, parts: Any) -> Any:
    """Returns what all parts sum, at the server."""
    merge_two = self._form().merge

    # One graph: between several, TFF would keep each merged sum to the end.
    @tff.tensorflow.computation([self._sum_type.member] * len(parts))
    def merge_all(sums: Any) -> Any:
      remaining: Sequence[Any] = [*sums]
      while len(remaining) > 1:  # Neighbours first.
        pairs = [remaining[i : i + 2] for i in range(0, len(remaining), 2)]
        remaining = [
          merge_two(*pair) if len(pair) == 2 else pair[0] for pair in pairs
        ]
      return remaining[0]

    return tff.federated_map(merge_all, tff.federated_zip([*parts]))


class Phases(tuple[Phase, ...]):
  """The phases of a computation, in their order.

  Attributes:
    ends: The computation as it was traced, if it makes the arguments of the
      first phase and the result of the last one in Python; else `None`.
  """

  ends: phases.PhasedComputation | None = None


class _Traced:
  """The origin of a computation whose parts nobody keeps."""

  def __init__(self, comp: tff.Computation) -> None:
    self._comp = comp

  def traced(self) -> tff.Computation:
    return self._comp

  def computation(
    self, name: str, build: Callable[[], tff.Computation]
  ) -> tff.Computation:
    del name
    return build()

  def number(self, name: str, count: Callable[[], int]) -> int:
    del name
    return count()


class _Cut:
  """A computation cut into phases, each of which is mergeable."""

  def __init__(self, parameter: tff.StructType, origin: native.Origin) -> None:
    self._parameter = parameter
    self._origin = origin

  @functools.cached_property
  def _computations(self) -> Sequence[tff.Computation]:
    comp = self._origin.traced()
    if isinstance(comp, phases.PhasedComputation):
      return comp.phases
    return [comp]

  @functools.cached_property
  def _forms(self) -> Sequence[Any]:
    """The mergeable forms of the phases; none if one of them has none."""
    compile_form = tff.backends.native.compile_to_mergeable_comp_form
    try:
      return [*map(compile_form, self._computations)]
    except ValueError:  # One of its sums depends on another.
      return []

  def all_phases(self) -> Phases:
    number = self._origin.number("phases", lambda: len(self._forms))
    found = Phases(map(self._phase, range(number)))
    found.ends = self._ends
    return found

  @functools.cached_property
  def _ends(self) -> phases.PhasedComputation | None:
    """See `Phases`."""

    def count() -> int:
      comp = self._origin.traced()
      return int(isinstance(comp, phases.PhasedComputation) and comp.has_ends)

    if not self._origin.number("ends", count):
      return None
    comp = self._origin.traced()
    assert isinstance(comp, phases.PhasedComputation)
    return comp

  def _phase(self, number: int) -> Phase:
    def keep(
      name: str, build: Callable[[], tff.Computation]
    ) -> tff.Computation:
      return self._origin.computation(f"phase {number}, {name}", build)

    def form() -> Any:
      return self._forms[number]

    # The first one has the parameter of the whole.
    if number == 0 and self._ends is None:
      return Phase(self._parameter, form, keep)

    def unchanged() -> tff.Computation:
      parameter = self._computations[number].type_signature.parameter
      return tff.federated_computation(lambda arg: arg, parameter)

    parameter = keep("parameter", unchanged).type_signature.parameter
    return Phase(parameter, form, keep)


_PHASES = "phases_of_tff_fair"


def phases_of(comp: tff.Computation) -> Phases | None:
  """Returns the phases of a computation; `None` if it cannot be cut."""
  # They refer to the computation, so that they live as long as it does.
  known = vars(comp)
  if _PHASES not in known:
    known[_PHASES] = _find(comp)
  found: Phases = known[_PHASES]
  return found or None


def _find(comp: tff.Computation) -> Phases:
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or not all(
    isinstance(element, tff.FederatedType)
    # Clients have values of their own, or there is one value at the server.
    and element.all_equal is not (element.placement is tff.CLIENTS)
    for element in parameter
  ):
    return Phases()
  origin = getattr(comp, "origin", None) or _Traced(comp)
  return _Cut(parameter, origin).all_phases()


def num_clients(comp: tff.Computation, arg: Any) -> int:
  """Returns the number of clients in the arguments of a computation.

  Args:
    comp: The computation.
    arg: Its argument, as TFF hands it to a context.
  """
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or arg is None:
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


def returns_rows(result: tff.Type) -> bool:
  """Returns whether a result is rows of clients and nothing else."""
  if isinstance(result, tff.FederatedType):
    return returns_rows(result.member)
  if isinstance(result, tff.StructType):
    return len(result) > 0 and all(map(returns_rows, result))
  return (
    isinstance(result, tff.TensorType)
    and bool(result.shape)
    and result.shape[0] is None
  )
