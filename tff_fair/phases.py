"""Computations that bring another form: phases that workers can share.

TFF cuts a computation into parts for several workers if none of its sums
depends on another. A round that first sums scalars, then updates scaled by
them, is no such computation. Its two halves are, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow_federated as tff


class PhasedComputation(tff.framework.ConcreteComputation):
  """A computation that can be called as it is, or in phases.

  Attributes:
    phases: Computations in each of which no sum depends on another. The first
      takes the arguments of this computation; each further one takes them too,
      and after them the results of all phases before it, which are at the
      server. The last one's result is that of this computation, up to rounding.
  """

  phases: tuple[tff.Computation, ...]

  @classmethod
  def of(
    cls, whole: tff.Computation, phases: Sequence[tff.Computation]
  ) -> PhasedComputation:
    """Returns a computation with phases.

    Args:
      whole: The computation, a TFF computation that is traced.
      phases: See the class.

    Raises:
      TypeError: If a phase does not take or return what it has to.
    """
    _check(whole, phases)
    phased = cls(
      computation_proto=tff.framework.serialize_computation(whole),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=whole.type_signature,
    )
    phased.phases = tuple(phases)
    return phased


def _check(whole: tff.Computation, phases: Sequence[tff.Computation]) -> None:
  given = [*whole.type_signature.parameter]
  for number, phase in enumerate(phases):
    expected = tff.StructType(given)
    found = phase.type_signature.parameter
    if not tff.StructType([*found]).is_assignable_from(expected):
      raise TypeError(
        f"Expected phase {number} to take {expected}, found {found}."
      )
    given.append(phase.type_signature.result)
  if not whole.type_signature.result.is_assignable_from(given[-1]):
    raise TypeError(
      f"Expected the last phase to return {whole.type_signature.result}, found "
      f"{given[-1]}."
    )
