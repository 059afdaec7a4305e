"""The phases in which a computation can be cut into parts of its clients.

TFF takes a second to find the mergeable form of each, so they are looked for
where no earlier program has kept what is made of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair import phases
from tff_fair.runtime import native
from tff_fair.runtime.parts.phase import Phase


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
