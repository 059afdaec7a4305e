"""Columns of a table, held compactly: numbers, or texts as codes."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers:
  """A column of numbers."""

  values: np.ndarray  # A float for each row, NaN if missing.
  # Whether the values may be row numbers; see `identifiers`.
  may_be_row_numbers: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Texts:
  """A column of texts."""

  codes: np.ndarray  # Indices of `values`, int32[rows]; -1 if missing.
  values: tuple[str, ...]  # The distinct texts, in ascending order.


Column = Numbers | Texts


def is_missing(column: Column) -> np.ndarray:
  """Returns whether each row lacks a value, bool[rows]."""
  if isinstance(column, Numbers):
    return np.isnan(column.values)
  return column.codes < 0


# Some rows of a column: numbers, float64[rows], NaN if missing; or codes, -1 if
# missing, with their texts; or None if some fields are not numbers.
ColumnChunk = np.ndarray | tuple[np.ndarray, Sequence[str]] | None
# A number of rows, and their columns by name.
Chunk = tuple[int, Mapping[str, ColumnChunk]]


class TextGatherer:
  """Gathers a text column from chunks of rows."""

  def __init__(self) -> None:
    self._parts: list[np.ndarray] = []
    self._codes: dict[str, int] = {}

  @property
  def values(self) -> Collection[str]:
    """The distinct texts so far, in the order of their first occurrence."""
    return self._codes.keys()

  def add(self, codes: np.ndarray, values: Sequence[str]) -> None:
    """Adds rows, as indices of `values`: -1 or the index of "" if missing."""
    known = self._codes
    places = [known.setdefault(v, len(known)) if v else -1 for v in values]
    # Appends the code of missing texts, which the index -1 selects.
    self._parts.append(np.array([*places, -1], np.int32)[codes])

  @property
  def num_texts(self) -> int:
    """The number of rows that have a text."""
    return sum(int((part >= 0).sum()) for part in self._parts)

  def first_row(self, value: str) -> int:
    """Returns the first row that has this text."""
    return int(np.argmax(np.concatenate(self._parts) == self._codes[value]))

  def column(self) -> Texts:
    """Returns the whole column."""
    values = sorted(self._codes)
    ranks = np.full(len(values) + 1, -1, np.int32)
    ranks[[self._codes[value] for value in values]] = np.arange(len(values))
    return Texts(ranks[np.concatenate(self._parts)], tuple(values))
