"""Computations that run either as a whole or in phases that workers share.

TFF can cut a computation into parts for several workers if none of its sums
depends on another. A round that sums scalars, and then updates scaled by these
sums, cannot be cut as a whole, but each of its two phases can. `rounds` and
`evaluation` in tff_fair create such computations; `parts` cuts their phases.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow_federated as tff

# The name of an operation that marks an aggregate's merge as valid for parts of
# the clients: the zero is neutral, and the merge agrees with the accumulation.
WRITTEN_FOR_PARTS = "aggregate_for_parts_of_tff_fair"


class Conversions(NamedTuple):
  """Functions that convert between a call and the phases that compute it.

  Each attribute is a module-level function of Python values.

  Attributes:
    first_arguments: Maps the call's arguments to those of the first phase.
    final_result: Maps the call's arguments and the last phase's result to the
      call's result.
    retry_arguments: Maps the first phase's arguments and the last phase's
      result to new arguments of the first phase, with which all phases run
      again, or to `None` to accept the result.
  """

  first_arguments: Callable[[Sequence[Any]], Sequence[Any]]
  final_result: Callable[[Sequence[Any], Any], Any]
  retry_arguments: Callable[[Sequence[Any], Any], Sequence[Any] | None]


def same_arguments(args: Sequence[Any]) -> Sequence[Any]:
  """Returns `args`: the first phase takes the arguments of the call."""
  return args


def last_result(args: Sequence[Any], result: Any) -> Any:
  """Returns the result of the last phase as the result of the call."""
  del args
  return result


def never_retry(first: Sequence[Any], result: Any) -> None:
  """Returns `None`: the phases never run again."""
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
    """Returns `whole` with phases, which `build` creates when first needed.

    `single_phase`, if given, builds the property of the same name.
    """
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

    The first phase takes the arguments of this computation by the same names,
    or the result of `conversions.first_arguments`. Each later phase takes the
    same arguments, followed by the results of all earlier phases, at the
    server. `conversions.final_result` converts the last phase's result to that
    of this computation, equal up to rounding. Raises `TypeError` if the types
    of a phase do not fit.
    """
    phases = tuple(self._build())
    self._check(phases)
    return phases

  @functools.cached_property
  def single_phase(self) -> tff.Computation | None:
    """One computation that does the work of all phases; may be None."""
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


def with_next(
  process: tff.learning.templates.LearningProcess, next_fn: tff.Computation
) -> tff.learning.templates.LearningProcess:
  """Returns a copy of the process with `next_fn` as its `next`."""
  return tff.learning.templates.LearningProcess(
    process.initialize,
    next_fn,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )
