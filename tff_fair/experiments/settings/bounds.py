"""Which values several settings take."""

from typing import Any

from tff_fair import declared
from tff_fair.experiments import number_range

A_RANGE: declared.Bounds = {
  "expects": number_range.EXPECTED,
  "is_valid": number_range.is_valid,
}
A_SEED: declared.Bounds = {
  "expects": "a non-negative integer",
  "is_valid": lambda value: value >= 0,
}


def positive_integer(
  default: int | None, meaning: str, *, decides: bool = True
) -> Any:
  """Declares a field that takes 1, 2, 3, ..."""
  expects = "a positive integer" + (" or none" * (default is None))
  return declared.value(
    default, meaning, expects=expects, minimum=1, decides=decides
  )


def positive_number(default: float | None, meaning: str) -> Any:
  """Declares a field that takes numbers that are finite, positive float32s."""
  expects = "a positive, finite number" + (" or none" * (default is None))
  return declared.value(
    default,
    meaning,
    expects=f"{expects} (in float32)",
    minimum=0,
    exclude_minimum=True,
    in_float32=True,
  )
