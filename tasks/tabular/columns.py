"""Columns of a table, held compactly: numbers, or texts as codes."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers:
  """A column of numbers."""

  values: np.ndarray  # Floats of each row, NaN where a number is missing.
  # Whether they may be the numbers of the rows; see `identifiers`.
  number_rows: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Texts:
  """A column of texts."""

  codes: np.ndarray  # Places in `values`, int32[rows]; -1 where missing.
  values: tuple[str, ...]  # The different texts, in ascending order.


Column = Numbers | Texts
# A column in some rows of a file: numbers, float64[rows] with NaN; or codes, -1
# where a text is missing, and their texts; or None of other fields.
Piece = np.ndarray | tuple[np.ndarray, Sequence[str]] | None
# The number of these rows, and the columns by name.
Rows = tuple[int, Mapping[str, Piece]]


class TextGatherer:
  """Gathers the pieces of a text column."""

  def __init__(self) -> None:
    self._parts: list[np.ndarray] = []
    self._codes: dict[str, int] = {}

  @property
  def values(self) -> Collection[str]:
    """The different texts so far, in the order in which they came."""
    return self._codes.keys()

  def add(self, codes: np.ndarray, values: Sequence[str]) -> None:
    """Adds rows: the place of their texts in `values`; -1, or the place of an
    empty text, where it is missing.
    """
    known = self._codes
    places = [known.setdefault(v, len(known)) if v else -1 for v in values]
    # Last the place of missing texts, where code -1 finds it.
    self._parts.append(np.array([*places, -1], np.int32)[codes])

  @property
  def num_texts(self) -> int:
    """Number of rows that have a text."""
    return sum(int((part >= 0).sum()) for part in self._parts)

  def first_row(self, value: str) -> int:
    """Returns the first row that has a text."""
    return int(np.argmax(np.concatenate(self._parts) == self._codes[value]))

  def column(self) -> Texts:
    """Returns the column."""
    values = sorted(self._codes)
    ranks = np.full(len(values) + 1, -1, np.int32)
    ranks[[self._codes[value] for value in values]] = np.arange(len(values))
    return Texts(ranks[np.concatenate(self._parts)], tuple(values))
