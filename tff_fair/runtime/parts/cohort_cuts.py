"""Decides which computations are cut into parts of their clients, and how.

If no sum of a computation depends on another, TFF can turn it into a mergeable
form of three computations. The first computes the sums of a part's clients, the
second merges the sums of two parts, and the third computes the result from the
merged sums.

TFF takes a second to derive this form for a phase. So the form is derived only
if the cache does not have the computations that are built from the form.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  native,
  phases,
  supervision,
  tff_internals,
  values,
)
from tff_fair.runtime.one_graph import steps

# The name of a function in one of this project's modules.
_OURS = re.compile(r"tff_fair(\.\w+)*:\w+")


class Phase:
  """A phase of a computation, as smaller computations for parts of a cohort.

  The phase's parameter is split into the arguments at server and clients.

  Attributes:
    server_type: The type of the arguments at the server, in their order.
    clients_type: The type of the arguments at clients, as a structure.
    is_at_clients: Whether each argument is at clients.
  """

  def __init__(
    self,
    parameter: tff.StructType,
    form: Callable[[], Any],
    keep: Callable[[str, Callable[[], tff.Computation]], tff.Computation],
  ) -> None:
    self.is_at_clients = [
      element.placement is tff.CLIENTS for element in parameter
    ]
    self.server_type, self.clients_type = (
      tff.StructType(
        [e for e in parameter if (e.placement is tff.CLIENTS) is wanted]
      )
      for wanted in (False, True)
    )
    self._names = tff.structure.name_list_with_nones(parameter)
    self._form = functools.cache(form)
    self._keep = keep
    # Engines recognize computations by identity, so each is built only once.
    self.merge = functools.cache(self._merge)
    self.finish = functools.cache(self._finish)

  @functools.cached_property
  def up_to_merge(self) -> tff.Computation:
    """The computation of a part's sums from arguments at server and clients."""

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
    """Returns a computation that merges the sums of `num_parts` parts."""
    return self._keep(
      f"merge {num_parts}",
      lambda: tff.federated_computation(
        self._merged, [self._sum_type] * num_parts
      ),
    )

  def _finish(self, num_parts: int) -> tff.Computation:
    """Returns a computation that merges `num_parts` sums and ends the phase."""

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
    """Joins the arguments at server and clients to the phase's argument."""
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
    """Returns the merged sum of all parts, at the server."""
    merge_two = self._form().merge

    # With several graphs instead of one, TFF would keep all intermediate sums.
    @tff.tensorflow.computation([self._sum_type.member] * len(parts))
    def merge_all(sums: Any) -> Any:
      remaining: Sequence[Any] = [*sums]
      while len(remaining) > 1:  # Merges neighbours.
        pairs = [remaining[i : i + 2] for i in range(0, len(remaining), 2)]
        remaining = [
          merge_two(*pair) if len(pair) == 2 else pair[0] for pair in pairs
        ]
      return remaining[0]

    return tff.federated_map(merge_all, tff.federated_zip([*parts]))


class Phases(tuple[Phase, ...]):
  """The phases and conversions of a computation, or why it has no phases."""

  conversions: phases.Conversions = phases.NO_CONVERSIONS
  why_none: str = ""


class _PhaseBuilder:
  """Cuts a computation into phases, each of which is mergeable."""

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
    """The mergeable forms of the phases."""
    compile_form = tff.backends.native.compile_to_mergeable_comp_form
    return [compile_form(native.with_plain_sums(c)) for c in self._computations]

  def _check(self) -> None:
    """Checks that the phases, computed in parts, give the right result."""
    for comp in self._computations:
      admission.check_aggregates(comp)
      if tff.types.contains(
        comp.type_signature.result,
        lambda t: getattr(t, "placement", None) is tff.CLIENTS,
      ):
        raise admission.NotAdmittedError("results at clients")
    try:
      number = len(self._forms)
    except ValueError as error:
      raise admission.NotAdmittedError(
        "sums over clients that depend on one another"
      ) from error
    except Exception as error:  # TFF raises errors of many classes.
      raise admission.NotAdmittedError(f"{type(error).__name__}") from error
    for phase in map(self._phase, range(number)):
      message = native.compile_now(phase.up_to_merge)
      steps.check_works_in_parts(steps.read(message))

  def all_phases(self) -> Phases:
    def find() -> str:
      """Returns the number of phases, or why there are none."""
      try:
        self._check()
      except admission.NotAdmittedError as error:
        return str(error)
      return str(len(self._forms))

    text = self._origin.text("phases", find)
    found = Phases(map(self._phase, range(int(text) if text.isdigit() else 0)))
    found.conversions = self._conversions
    if not found:
      found.why_none = text
    return found

  @functools.cached_property
  def _conversions(self) -> phases.Conversions:
    def traced() -> phases.Conversions:
      comp = self._origin.traced()
      return getattr(comp, "conversions", phases.NO_CONVERSIONS)

    found = functions_by_name(
      self._origin.text("conversions", lambda: function_names(traced()))
    )
    return traced() if found is None else found

  def _phase(self, number: int) -> Phase:
    def keep(
      name: str, build: Callable[[], tff.Computation]
    ) -> tff.Computation:
      return self._origin.computation(f"phase {number}, {name}", build)

    def form() -> Any:
      return self._forms[number]

    # If nothing converts the arguments, the first phase takes the computation's
    # own parameter.
    if (
      number == 0 and self._conversions.first_arguments is phases.same_arguments
    ):
      return Phase(self._parameter, form, keep)

    def unchanged() -> tff.Computation:
      parameter = self._computations[number].type_signature.parameter
      return tff.federated_computation(lambda arg: arg, parameter)

    parameter = keep("parameter", unchanged).type_signature.parameter
    return Phase(parameter, form, keep)


def phases_of(comp: tff.Computation) -> Phases:
  """Returns the phases of a computation; an empty tuple if it cannot be cut."""
  return tff_internals.cached_on(comp, "phases", lambda: _find(comp))


def _find(comp: tff.Computation) -> Phases:
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or not all(
    isinstance(element, tff.FederatedType)
    # Either each client has its own value, or the server has one.
    and element.all_equal is not (element.placement is tff.CLIENTS)
    for element in parameter
  ):
    found = Phases()
    found.why_none = f"a parameter of the type {parameter}"
    return found
  return _PhaseBuilder(parameter, native.origin_of(comp)).all_phases()


def function_names(conversions: phases.Conversions) -> str:
  """Returns the conversions' names; "" if a function is not in tff_fair."""
  names = [f"{f.__module__}:{f.__qualname__}" for f in conversions]
  ours = all(_OURS.fullmatch(name) for name in names)
  return " ".join(names) if ours else ""


def functions_by_name(text: str) -> phases.Conversions | None:
  """Returns the functions that `function_names` named; `None` for "".

  Also returns `None` if a name is not in tff_fair.
  """
  names = text.split()
  if not names or not all(map(_OURS.fullmatch, names)):
    return None
  places = [name.split(":") for name in names]
  return phases.Conversions(
    *(getattr(importlib.import_module(module), f) for module, f in places)
  )


def num_clients(comp: tff.Computation, arg: Any) -> int:
  """Returns the number of clients in `arg`; 0 unless its lists agree on it."""
  parameter = comp.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or arg is None:
    return 0
  given = tff.structure.from_container(arg)
  found = {
    len(value)
    for element, value in zip(parameter, given, strict=True)
    if values.is_at_clients(element) and isinstance(value, (list, tuple))
  }
  return found.pop() if len(found) == 1 else 0


def returns_rows(result: tff.Type) -> bool:
  """Returns whether all tensors of a result have an unknown number of rows."""
  if isinstance(result, tff.FederatedType):
    return returns_rows(result.member)
  if isinstance(result, tff.StructType):
    return len(result) > 0 and all(map(returns_rows, result))
  return (
    isinstance(result, tff.TensorType)
    and bool(result.shape)
    and result.shape[0] is None
  )


# By default, cohorts of up to this many clients are not cut.
CLIENTS_PER_PART = 32

_size: int | None = None  # Set by `in_parts_of`.
_has_warned = False


@contextlib.contextmanager
def in_parts_of(clients_per_part: int) -> Iterator[None]:
  """Sets the size of parts within the block, in place of the context's size.

  Args:
    clients_per_part: The most clients in a part; 0 never cuts.

  Raises:
    ValueError: If `clients_per_part` is negative.
  """
  global _size  # noqa: PLW0603
  former = _size
  _size = part_size_or_default(clients_per_part)
  try:
    yield
  finally:
    _size = former


def part_size_or_default(clients_per_part: int | None) -> int:
  """Returns the size of parts, by default 32; raises for negative numbers."""
  if clients_per_part is None:
    return CLIENTS_PER_PART
  if clients_per_part < 0:
    raise ValueError(
      "Expected clients_per_part of 1 or more, or 0 to compute cohorts as a "
      f"whole: {clients_per_part}."
    )
  return clients_per_part


def cut(
  comp: tff.Computation, arg: Any, clients_per_part: int
) -> tuple[Phases, int] | None:
  """Returns phases and a part's size; None if one call takes all clients."""
  global _has_warned  # noqa: PLW0603
  size = clients_per_part if _size is None else _size
  number = num_clients(comp, arg)
  if not size or number <= size:
    return None
  phases = phases_of(comp)
  if phases:
    return phases, size
  admission.log(f"one call computes all {number} clients", phases.why_none)
  supervised = supervision.current()
  if supervised is not None and not _has_warned:
    _has_warned = True
    supervised.say(
      f"One call computes all {number} clients of a cohort, not parts "
      f"of {size}: {phases.why_none}."
    )
  return None
