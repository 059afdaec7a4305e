"""Families of computations, each about one thing that may go wrong."""

from benchmarks.fuzzing.computations import (
  families_data,
  families_state,
  families_sums,
)

FAMILIES = (
  *families_sums.FAMILIES,
  *families_state.FAMILIES,
  *families_data.FAMILIES,
)
