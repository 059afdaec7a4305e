"""Recognizes columns of ids or row numbers, which should not be features.

An id says nothing about an example. But if rows are in some order, such as by
label, ids or row numbers reveal the labels.
"""

import re
from collections.abc import Iterable

import numpy as np

from tasks import notices
from tff_fair import declared

# Names of ids or row numbers in databases, pandas and pyarrow: id, patient_id,
# PatientID, Unnamed: 0.1, __index_level_0__.
_NAME = re.compile(
  r"(?i:id|.+[_\s.-]id|index|unnamed: ?\d+(\.\d+)*|__index_level_\d+__)"
  r"|.*[a-z]I[Dd]"
)
_NEARLY = 0.95
_LEAST_ROWS = 20  # In fewer rows, numbers may rise by chance.
_MOST_EXACT = 2**24  # Larger integers may become equal in float32.


def looks_like_id(column: str) -> bool:
  """Returns whether a column is named like ids or row numbers."""
  return _NAME.fullmatch(column.strip()) is not None


class RiseCounter:
  """Counts how often a column's numbers rise from row to row."""

  def __init__(self) -> None:
    self._rising = self._number = 0
    self._last = np.zeros(0)
    self._are_whole = True

  def add(self, values: np.ndarray) -> None:
    """Adds rows, float64[n]; NaN is a missing number."""
    known = np.concatenate([self._last, values[~np.isnan(values)]])
    self._are_whole = self._are_whole and bool((known % 1 == 0).all())
    self._rising += int((np.diff(known) > 0).sum())
    self._number += max(len(known) - 1, 0)
    self._last = known[-1:]

  def are_row_numbers(self, values: np.ndarray) -> bool:
    """Returns whether `values` are whole, nearly all distinct, and rising."""
    if not self._are_whole or self._number < _LEAST_ROWS - 1:
      return False
    if self._rising < _NEARLY * self._number:
      return False
    known = values[~np.isnan(values)]
    if np.abs(known).max() > _MOST_EXACT:  # They may become equal in float32.
      return True
    return len(np.unique(known)) >= _NEARLY * len(known)


def notify_left_out(place: object, columns: Iterable[str], remedy: str) -> None:
  """Notifies the user of left-out columns, if any; `remedy` would keep them."""
  names = list(columns)
  if names:
    shown = declared.as_text(names)
    are = "column is" if len(names) == 1 else "columns are"
    notices.notify(
      f"{place}: {len(names):,} {are} left out, because their names or numbers "
      f"look like ids or row numbers: {', '.join(map(repr, names))}. To use "
      f"them as features, give {remedy.format(shown)}."
    )
