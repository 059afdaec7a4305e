"""Which computations are cut into parts, and how large a part is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow_federated as tff

from tff_fair.runtime import admission, supervision
from tff_fair.runtime.parts import engine, forms

_size: int | None = None  # In `in_parts_of`.
_has_told = False


class CohortCut(NamedTuple):
  """How to cut a computation.

  Attributes:
    phases: Its phases.
    clients_per_part: The size of the parts.
  """

  phases: forms.Phases
  clients_per_part: int


@contextlib.contextmanager
def in_parts_of(clients_per_part: int) -> Iterator[None]:
  """Cuts cohorts into parts of another size than the context was told.

  Args:
    clients_per_part: The most clients of a part; 0 never cuts.
  """
  global _size  # noqa: PLW0603
  former = _size
  _size = clients_per_part
  try:
    yield
  finally:
    _size = former


def checked(clients_per_part: int | None) -> int:
  """Returns the size of parts, by default `engine.CLIENTS_PER_PART`.

  Raises:
    ValueError: If it is below 0.
  """
  if clients_per_part is None:
    return engine.CLIENTS_PER_PART
  if clients_per_part < 0:
    raise ValueError(
      "Expected clients_per_part of 1 or more, or 0 to compute cohorts as a "
      f"whole: {clients_per_part}."
    )
  return clients_per_part


def cut(
  comp: tff.Computation, arg: Any, clients_per_part: int
) -> CohortCut | None:
  """Returns how to cut a computation of these arguments, if it is to be cut.

  Args:
    comp: The computation.
    arg: Its argument, as TFF hands it to a context.
    clients_per_part: What the context was told.

  Returns:
    How to cut it; `None` to compute it in one call: if its clients are no more
    than a part has, or if it cannot be cut.
  """
  global _has_told  # noqa: PLW0603
  size = clients_per_part if _size is None else _size
  num_clients = forms.num_clients(comp, arg)
  if not size or num_clients <= size:
    return None
  phases = forms.phases_of(comp)
  if phases:
    return CohortCut(phases, size)
  admission.log(
    f"one worker computes all {num_clients} clients", phases.why_none
  )
  supervised = supervision.current()
  if supervised is not None and not _has_told:
    _has_told = True
    supervised.say(
      f"One worker computes all {num_clients} clients of a cohort, not parts "
      f"of {size}: {phases.why_none}."
    )
  return None
