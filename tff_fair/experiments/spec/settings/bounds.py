"""Which values several settings take: bounds, and ranges of integers."""

import re

from tff_fair import declared

# A positive integer, or a range that such numbers are drawn from.
#
# A range is written as 5-15; Python may give it as (5, 15).


Range = int | str  # 5, or "5-15".
A_RANGE_IS = "a positive integer, or a range of them, as 5 or 5-15"
_LARGEST = 2**31 - 1


def is_range(value: Range) -> bool:
  """Returns whether a value is a number or a range."""
  return _read(value) is not None


def normal_range(value: object) -> object:
  """Returns a value as it is usually written; any other as it is."""
  if isinstance(value, tuple) and len(value) == 2:
    value = f"{value[0]}-{value[1]}"
  found = _read(value)
  if found is None:
    return value
  least, most = found
  return least if least == most else f"{least}-{most}"


def range_ends(value: Range) -> tuple[int, int]:
  """Returns the least and the greatest number, which may be the same."""
  found = _read(value)
  if found is None:
    raise ValueError(f"Expected {A_RANGE_IS}, found {value!r}.")
  return found


def _read(value: object) -> tuple[int, int] | None:
  if isinstance(value, bool):
    return None
  match = re.fullmatch(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?", str(value))
  if match is None:
    return None
  least, most = int(match[1]), int(match[2] or match[1])
  return (least, most) if 1 <= least <= most <= _LARGEST else None


A_RANGE: declared.Bounds = {
  "expects": A_RANGE_IS,
  "is_valid": is_range,
}
A_SEED: declared.Bounds = {
  "expects": "a non-negative integer",
  "is_valid": lambda value: value >= 0,
}
