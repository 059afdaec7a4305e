"""Checks examples: labels, pixels, finite numbers; writes values as texts."""

from collections.abc import Sequence

import numpy as np

from tasks.data_error import DataError


def class_labels(
  values: Sequence[int | float | str] | np.ndarray,
  num_classes: int | None = None,
) -> np.ndarray:
  """Converts class numbers to int32[n]; other labels raise a `ValueError`."""
  try:
    numbers = np.asarray(values)
  except ValueError:  # Lists of unequal lengths.
    numbers = np.array("")
  if not numbers.size:
    return np.zeros([0], np.int32)
  if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.number):
    raise ValueError("labels must be numbers, one for each example")
  most = np.iinfo(np.int32).max if num_classes is None else num_classes - 1
  valid = (numbers == np.rint(numbers)) & (numbers >= 0) & (numbers <= most)
  if not valid.all():
    raise ValueError(_wrong_label(numbers, valid, most))
  return numbers.astype(np.int32)


def check_labels(labels: np.ndarray, num_classes: int, source: str) -> None:
  """Checks that labels, integer[n], are from 0 to `num_classes` - 1."""
  valid = (labels >= 0) & (labels < num_classes)
  if not valid.all():
    raise DataError(source, f"{_wrong_label(labels, valid, num_classes - 1)}.")


def _wrong_label(labels: np.ndarray, valid: np.ndarray, most: int) -> str:
  first = int(np.flatnonzero(~valid)[0])
  label = float(labels[first])
  kind = "" if label.is_integer() else "an integer from "
  return (
    f"example {first} (counted from 0) has label {label:.15g}, expected "
    f"{kind}0 to {most}"
  )


def check_pixels(pixels: np.ndarray) -> None:
  """Checks that pixels are from 0 to 1."""
  # For NaN, `pixels < 0` and `pixels > 1` would both be false.
  if not np.all((pixels >= 0) & (pixels <= 1)):
    raise ValueError(
      f"pixels range from {pixels.min()} to {pixels.max()}, expected 0 to 1"
    )


def check_finite(source: object, what: str, array: np.ndarray) -> None:
  """Checks that floats are neither missing nor infinite in float32."""
  if array.dtype.kind != "f" or not array.size:
    return
  # Checks part by part: a copy of the array may not fit into memory.
  step = max(1, (1 << 22) // array[0].size)
  for start in range(0, len(array), step):
    part = np.abs(array[start : start + step]).reshape(
      len(array[start : start + step]), -1
    )
    fits = (part <= np.finfo(np.float32).max).all(axis=1)  # False for NaN.
    if not fits.all():
      raise DataError(
        source,
        f"{what} of {place(start + int(fits.argmin()))} is missing, infinite "
        "or too large for float32.",
      )


def as_text(value: object) -> str:
  """Returns a value as a text; different bytes stay different."""
  if isinstance(value, bytes):
    return value.decode("utf-8", "backslashreplace")
  return str(value)


def place(row: int) -> str:
  """Describes where an example is, for error messages."""
  return f"example {row} (counted from 0)"
