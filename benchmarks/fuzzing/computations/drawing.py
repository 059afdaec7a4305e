"""Draws computations, and calls each of them many times."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from typing import Any

from benchmarks.fuzzing.case import Case
from benchmarks.fuzzing.computations import (
  contexts,
  families_data,
  families_state,
  families_sums,
  programs,
  subject,
)

# Each about one thing that may go wrong.
FAMILIES = (
  *families_sums.FAMILIES,
  *families_state.FAMILIES,
  *families_data.FAMILIES,
)
# Of a computation, which takes longer to trace and to compile than to call.
_CALLS = 30
_FAMILIES = 0.75  # So many computations are of the families; others are random.


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields calls of computations without end.

  Args:
    rng: Draws them.
    folder: For the files of their effects.
  """
  both = contexts.Both()
  try:
    while True:
      yield from of_seed(rng.getrandbits(48), folder, both)
  finally:
    both.close()


def of_seed(
  seed: int, folder: pathlib.Path, both: contexts.Both
) -> Iterator[Case]:
  """Yields calls of one computation.

  Args:
    seed: Draws it, and the arguments of the calls.
    folder: See `cases`.
    both: The contexts.
  """
  rng = random.Random(seed)
  drawn = _drawn(rng, folder)
  if drawn is not None:
    yield from subject.cases(drawn, rng, both, seed, _CALLS)


def _drawn(rng: random.Random, folder: pathlib.Path) -> Any:
  """Returns a computation; `None` if TFF takes none such."""
  try:
    if rng.random() < _FAMILIES:
      return rng.choice(FAMILIES)(rng, folder)
    return programs.subject(rng)
  # TFF and TensorFlow refuse programs by errors of many classes.
  except Exception:
    return None
