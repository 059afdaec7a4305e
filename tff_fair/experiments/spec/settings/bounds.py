"""Checks values that several settings share: seeds, and integer ranges.

A run draws numbers from a range, which is written as 5-15, or in Python also as
(5, 15).
"""

import re

from tff_fair import declared

Range = int | str  # 5, or "5-15".
LARGEST_INT = 2**31 - 1  # Ids, and positions of examples, are int32.


def range_ends(value: object) -> tuple[int, int]:
  """Returns the least and greatest number of a range; 5 is the range "5-5"."""
  text = "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
  match = re.fullmatch(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?", text)
  least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
  if not 1 <= least <= most <= LARGEST_INT:
    raise ValueError(f"Expected {A_RANGE['expects']}, found {value!r}.")
  return least, most


def ends_or_number(value: Range) -> int | tuple[int, int]:
  """Returns the two ends of a range; one number if they are equal."""
  least, most = range_ends(value)
  return least if least == most else (least, most)


def normal_range(value: object) -> object:
  """Returns a valid range as "5-15" or as an int; other values unchanged."""
  try:
    least, most = range_ends(value)
  except ValueError:
    return value
  return least if least == most else f"{least}-{most}"


A_RANGE: declared.Bounds = {
  "expects": "a positive integer, or a range of them, as 5 or 5-15",
  "is_valid": range_ends,
}
A_SEED: declared.Bounds = {
  "expects": "a non-negative integer",
  "is_valid": lambda value: value >= 0,
}
