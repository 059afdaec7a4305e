"""Computations that bring another form: phases that workers can share.

TFF cuts a computation into parts for several workers if none of its sums
depends on another. A round that first sums scalars, then updates scaled by
them, is no such computation. Its two halves are, one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_federated as tff

# The name of an operation in the merge of an aggregate that parts of the
# clients may share: its zero is neutral, and its merge fits its accumulate.
WRITTEN_FOR_PARTS = "aggregate_for_parts_of_tff_fair"


class PhasedComputation(tff.framework.ConcreteComputation):
  """A computation that can be called as it is, or in phases."""

  _build: Callable[[], Sequence[tff.Computation]]
  _before: Callable[[Sequence[Any]], Sequence[Any]] | None
  _after: Callable[[Sequence[Any], Any], Any] | None
  _again: Callable[[Sequence[Any], Any], Sequence[Any] | None] | None
  _build_uncut: Callable[[], tff.Computation] | None

  @classmethod
  def of(
    cls,
    whole: tff.Computation,
    build: Callable[[], Sequence[tff.Computation]],
    *,
    before: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    after: Callable[[Sequence[Any], Any], Any] | None = None,
    again: Callable[[Sequence[Any], Any], Sequence[Any] | None] | None = None,
    uncut: Callable[[], tff.Computation] | None = None,
  ) -> PhasedComputation:
    """Returns a computation with phases.

    Args:
      whole: The computation, a TFF computation that is traced.
      build: Returns `phases`. Called when somebody first asks for them: to
        trace them takes about as long as to trace `whole`.
      before: A Python function on values. From the arguments of `whole` it
        makes those of the first phase; `None` leaves them as they are.
      after: Likewise. It makes the result of `whole` from the arguments of
        `whole` and the result of the last phase; `None` leaves it as it is.
      again: Likewise. From the arguments of the first phase and the result of
        the last one it makes those with which all phases run once more, or
        `None` if the result stands.
      uncut: Returns `uncut`, if there is one.
    """
    phased = cls(
      computation_proto=tff.framework.serialize_computation(whole),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=whole.type_signature,
    )
    phased._build = build
    phased._before = before
    phased._after = after
    phased._again = again
    phased._build_uncut = uncut
    return phased

  @functools.cached_property
  def phases(self) -> tuple[tff.Computation, ...]:
    """Computations in each of which no sum depends on another.

    The first takes the arguments of this computation by the same names, or
    those that `arguments` makes of them. Each further one takes them too, and
    after them the results of all phases before it, which are at the server. The
    last one's result is that of this computation, up to rounding, or what
    `result` makes it of.

    Raises:
      TypeError: If a phase does not take or return what it has to.
    """
    phases = tuple(self._build())
    self._check(phases)
    return phases

  @functools.cached_property
  def uncut(self) -> tff.Computation | None:
    """All phases in one computation, from `arguments` to before `result`."""
    return None if self._build_uncut is None else self._build_uncut()

  @property
  def has_ends(self) -> bool:
    """Whether `arguments` or `result` change anything."""
    return self._before is not None or self._after is not None

  def arguments(self, args: Sequence[Any]) -> Sequence[Any]:
    """Returns the arguments of the first phase, from those of a call."""
    return args if self._before is None else self._before(args)

  def arguments_again(
    self, first: Sequence[Any], last: Any
  ) -> Sequence[Any] | None:
    """Returns with which arguments all phases run once more, if they do.

    Args:
      first: The arguments of the first phase.
      last: The result of the last phase.
    """
    return None if self._again is None else self._again(first, last)

  def result(self, args: Sequence[Any], last: Any) -> Any:
    """Returns the result of a call.

    Args:
      args: The arguments of the call.
      last: The result of the last phase.
    """
    return last if self._after is None else self._after(args, last)

  def _check(self, phases: Sequence[tff.Computation]) -> None:
    given = [*self.type_signature.parameter]
    if self._before is not None:
      given = [*phases[0].type_signature.parameter]
    for number, phase in enumerate(phases):
      expected = tff.StructType(given)
      found = tff.StructType([*phase.type_signature.parameter])
      if not found.is_assignable_from(expected):
        raise TypeError(
          f"Expected phase {number} to take {expected}, found {found}."
        )
      given.append(phase.type_signature.result)
    if (
      self._after is None
      and not self.type_signature.result.is_assignable_from(given[-1])
    ):
      raise TypeError(
        "Expected the last phase to return "
        f"{self.type_signature.result}, found {given[-1]}."
      )
