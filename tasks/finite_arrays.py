"""Checks that arrays of examples hold numbers that a model can take."""

import numpy as np

from tasks.data_error import DataError


def check(what: str, array: np.ndarray) -> None:
  """Checks that floats are neither missing nor infinite.

  Args:
    what: The array, for errors.
    array: Of any dtype; the first axis is that of the examples.

  Raises:
    DataError: If a number is missing, infinite or too large for float32; it
      names the example.
  """
  if array.dtype.kind != "f" or not array.size:
    return
  # A part at a time: x may fill half of the memory.
  step = max(1, (1 << 22) // array[0].size)
  for start in range(0, len(array), step):
    part = np.abs(array[start : start + step]).reshape(
      len(array[start : start + step]), -1
    )
    fits = (part <= np.finfo(np.float32).max).all(axis=1)  # False for NaN.
    if not fits.all():
      raise DataError(
        f"{what} of {place(start + int(fits.argmin()))} is missing, infinite "
        "or too large for float32."
      )


def place(row: int) -> str:
  """Returns where an example is, in words."""
  return f"example {row} (counted from 0)"
