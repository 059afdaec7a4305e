"""Checks labels that files have."""

from collections.abc import Sequence

import numpy as np

from tasks.data_error import DataError


def class_labels(
  values: Sequence[int | float | str] | np.ndarray,
  num_classes: int | None = None,
) -> np.ndarray:
  """Returns class numbers as int32.

  Args:
    values: Numbers, some perhaps written as floats (3.0).
    num_classes: Their number, or None if it is not known yet.

  Returns:
    int32[n].

  Raises:
    ValueError: If a value is no integer or out of range.
  """
  numbers = np.asarray(values)
  if not numbers.size:
    return np.zeros([0], np.int32)
  if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.number):
    raise ValueError("labels must be numbers, one for each example")
  wrong = ~(np.isfinite(numbers) & (numbers == np.rint(numbers)))
  if wrong.any():
    raise ValueError(f"labels must be integers, found {numbers[wrong][0]}")
  most = np.iinfo(np.int32).max if num_classes is None else num_classes - 1
  if numbers.min() < 0 or numbers.max() > most:
    raise ValueError(
      f"labels range from {numbers.min():g} to {numbers.max():g}, "
      f"expected 0 to {most}"
    )
  return numbers.astype(np.int32)


def check(labels: np.ndarray, num_classes: int, source: str) -> None:
  """Checks that labels are class numbers.

  Args:
    labels: integer[n].
    num_classes: Number of classes.
    source: The file, for the error message.

  Raises:
    DataError: If a label is out of range; says which.
  """
  wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
  if wrong.size:
    raise DataError(
      f"{source}: example {wrong[0]} (counted from 0) has label "
      f"{labels[wrong[0]]}, expected 0 to {num_classes - 1}."
    )
