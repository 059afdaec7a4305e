"""Random federated computations, under TFF's own executors and beside them."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

from benchmarks.fuzzing import Case
from benchmarks.fuzzing.computations import (
  contexts,
  families_sums,
  families_work,
  programs,
  subject,
)

# Each about one thing that may go wrong.
FAMILIES = (*families_sums.FAMILIES, *families_work.FAMILIES)
# Of a computation, which takes longer to trace and to compile than to call.
_CALLS = 30
_FAMILIES = 0.75  # So many computations are of the families; others are random.


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields calls of computations without end."""
  del folder
  both = contexts.Both()
  try:
    while True:
      yield from _of_seed(rng.getrandbits(48), both)
  finally:
    both.close()


def of_seed(seed: int) -> Iterator[Case]:
  """Yields the calls of a computation anew, by the seed in their names."""
  both = contexts.Both()
  try:
    yield from _of_seed(seed, both)
  finally:
    both.close()


def _of_seed(seed: int, both: contexts.Both) -> Iterator[Case]:
  rng = random.Random(seed)
  drawn = _drawn(rng)
  if drawn is not None:
    yield from subject.cases(drawn, rng, both, seed, _CALLS)


def _drawn(rng: random.Random) -> subject.Subject | None:
  """Returns a computation; `None` if TFF takes none such."""
  try:
    if rng.random() < _FAMILIES:
      return rng.choice(FAMILIES)(rng)
    return programs.subject(rng)
  # TFF and TensorFlow refuse programs by errors of many classes.
  except Exception:
    return None
