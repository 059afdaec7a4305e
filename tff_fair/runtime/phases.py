"""Computations with a second form: phases that workers can share.

TFF can cut a computation into parts for several workers if none of its sums
depends on another. A round that first sums scalars, then updates scaled by
these sums, cannot be cut as a whole, but each of its two halves can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow_federated as tff

# The name of an operation that marks the merge of an aggregate as valid for
# parts of the clients: its zero is neutral, and merge agrees with accumulate.
WRITTEN_FOR_PARTS = "aggregate_for_parts_of_tff_fair"


class Conversions(NamedTuple):
  """Conversions between the arguments and results of a call and of its phases.

  All are module-level functions of Python values.

  Attributes:
    first_arguments: From the arguments of the call to those of the first phase.
    final_result: From the arguments of the call and the result of the last
      phase to the result of the call.
    retry_arguments: From the arguments of the first phase and the result of the
      last one to those with which all phases run once more, or to `None` if the
      result stands.
  """

  first_arguments: Callable[[Sequence[Any]], Sequence[Any]]
  final_result: Callable[[Sequence[Any], Any], Any]
  retry_arguments: Callable[[Sequence[Any], Any], Sequence[Any] | None]


def same_arguments(args: Sequence[Any]) -> Sequence[Any]:
  """Returns the arguments of a call as those of its first phase."""
  return args


def last_result(args: Sequence[Any], result: Any) -> Any:
  """Returns the result of the last phase as that of the call."""
  del args
  return result


def never_retry(first: Sequence[Any], result: Any) -> None:
  """Accepts each result."""
  del first, result


NO_CONVERSIONS = Conversions(same_arguments, last_result, never_retry)


class PhasedComputation(tff.framework.ConcreteComputation):
  """A computation that can be called as a whole or in phases."""

  conversions: Conversions
  _build: Callable[[], Sequence[tff.Computation]]
  _build_single_phase: Callable[[], tff.Computation] | None

  @classmethod
  def create(
    cls,
    whole: tff.Computation,
    build: Callable[[], Sequence[tff.Computation]],
    *,
    conversions: Conversions = NO_CONVERSIONS,
    single_phase: Callable[[], tff.Computation] | None = None,
  ) -> PhasedComputation:
    """Returns a computation with phases."""
    phased = cls(
      computation_proto=tff.framework.serialize_computation(whole),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=whole.type_signature,
    )
    phased.conversions = conversions
    phased._build = build
    phased._build_single_phase = single_phase
    return phased

  @functools.cached_property
  def phases(self) -> tuple[tff.Computation, ...]:
    """The phases: computations in which no sum depends on another.

    The first takes the arguments of this computation by the same names, or what
    `conversions.first_arguments` returns. Each later one takes the same,
    followed by the results of all earlier phases, which are at the server. Up
    to rounding, the last result, or what `conversions.final_result` returns for
    it, is the result of this computation. Raises `TypeError` if a phase does
    not fit.
    """
    phases = tuple(self._build())
    self._check(phases)
    return phases

  @functools.cached_property
  def single_phase(self) -> tff.Computation | None:
    """All phases in one computation, between the `conversions`."""
    return (
      None if self._build_single_phase is None else self._build_single_phase()
    )

  def _check(self, phases: Sequence[tff.Computation]) -> None:
    first = (
      self if self.conversions.first_arguments is same_arguments else phases[0]
    )
    given = [*first.type_signature.parameter]
    for number, phase in enumerate(phases):
      expected = tff.StructType(given)
      found = tff.StructType([*phase.type_signature.parameter])
      if not found.is_assignable_from(expected):
        raise TypeError(
          f"Expected phase {number} to take {expected}, found {found}."
        )
      given.append(phase.type_signature.result)
    if self.conversions.final_result is not last_result:
      return
    if not self.type_signature.result.is_assignable_from(given[-1]):
      raise TypeError(
        "Expected the last phase to return "
        f"{self.type_signature.result}, found {given[-1]}."
      )
