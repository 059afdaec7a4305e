"""Turns a table's labels into class numbers or standardized numbers."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.tabular import moments, text_columns
from tasks.tabular.columns import Column, Numbers
from tasks.tabular.population import ClientRows, Population

LabelKind = Literal["auto", "classes", "number"]

# Numbers with more distinct values are not classes, unless the user says so.
_MOST_CLASSES = 20


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
  """The labels of all rows, and their meaning."""

  # Class numbers, int32[rows], or one or t numbers, float32[rows] or [rows, t].
  y: np.ndarray
  class_names: Sequence[str] | None = None  # None for numbers.
  mean: float = 0.0  # The label at y = 0, in the label's own units.
  scale: float = 1.0  # One unit of y in the label's own units.

  @property
  def num_classes(self) -> int | None:
    """The number of classes; None for numbers."""
    return None if self.class_names is None else len(self.class_names)


class Classes(NamedTuple):
  """The classes of all rows."""

  # The class of each row, int[rows], an index of `names`; -1 if missing.
  codes: np.ndarray
  names: Sequence[str]  # Names of all classes.


def classes_of(
  column: Column, kind: LabelKind, *, source: str
) -> Classes | None:
  """Returns a column's classes; None if it has numbers to predict."""
  if isinstance(column, Numbers):
    is_missing = np.isnan(column.values)
    known = column.values[~is_missing]
    if kind == "number" or (kind == "auto" and not _are_classes(known)):
      return None
    values = np.unique(known)
    codes = np.where(is_missing, -1, np.searchsorted(values, column.values))
    return Classes(codes, [f"{value:.15g}" for value in values])
  if kind == "number":
    raise DataError(
      source,
      f"holds texts, such as {column.values[0]!r}, but kind=number needs "
      "numbers.",
    )
  return Classes(column.codes, column.values)


def _are_classes(values: np.ndarray) -> bool:
  if not np.array_equal(values, np.rint(values)):
    return False
  return len(np.unique(values)) <= _MOST_CLASSES


def number_classes(
  classes: Classes,
  clients: Population,
  *,
  source: str,
  place: Callable[[int], str],
) -> Labels:
  """Returns labels as numbers of the classes that occur in training rows.

  Raises a `DataError` if a test row has another class.
  """
  codes, names = classes
  is_known = np.bincount(codes[clients.train.rows], minlength=len(names)) > 0
  is_new = ~is_known[codes[clients.test.rows]]
  if is_new.any():
    row = int(clients.test.rows[is_new].min())
    raise DataError(
      f"{source}, {place(row)}",
      f"the label {names[codes[row]]!r} is only in test rows, so no client "
      "trains on it. Leave these rows out, or split the rows in another way.",
    )
  known = np.flatnonzero(is_known)
  if len(known) > text_columns.MAX_CATEGORIES:
    raise DataError(
      source,
      f"has {len(known):,} different labels, such as {names[known[0]]!r}; at "
      f"most {text_columns.MAX_CATEGORIES:,} can be classes.",
    )
  if len(known) == 1:
    raise _one_value(source, names[known[0]])
  numbers = np.cumsum(is_known, dtype=np.int32) - 1
  return Labels(
    y=numbers[codes].astype(np.int32),
    class_names=tuple(names[k] for k in known),
  )


def standardize(
  values: np.ndarray, train: ClientRows, *, source: str
) -> Labels:
  """Standardizes labels, float64[rows], by the moments of all training rows."""
  of_training = values[train.rows]
  if of_training.min() == of_training.max():
    raise _one_value(source, f"{of_training[0]:.15g}")
  found = moments.of_federation(moments.of_clients(of_training, train.sizes))
  mean, scale = float(found.mean), float(found.deviation)
  y = ((values - mean) / scale).astype(np.float32)
  return Labels(y=y, mean=mean, scale=scale)


def _one_value(source: str, value: str) -> DataError:
  return DataError(
    source, f"every label to train on is {value!r}; there is nothing to learn."
  )
