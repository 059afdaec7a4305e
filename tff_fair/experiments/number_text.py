"""Formats numbers for tables, pages and sentences."""

import math
from collections.abc import Sequence

_SHOWN_DIGITS = 4
_MOST_FIXED = 1e9  # Larger numbers are shown with a power of ten: 1.2e+12.
_P_DIGITS = 3
_LARGE = 1000  # From this size on, narrow cells show a power of ten: 1e+05.


def fixed(value: float, digits: int, sign: str = "") -> str:
  """Returns a number with `digits` decimals; a huge one as "1.234e+12".

  With `sign` "+", numbers of 0 or more have a plus sign.
  """
  if _MOST_FIXED < abs(value) < math.inf:
    return f"{value:{sign}.{_SHOWN_DIGITS}g}"
  # A value rounded to zero must not have a minus sign.
  return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def with_minus(number: str) -> str:
  """Replaces hyphens in a number's text by minus signs."""
  return number.replace("-", "−")


def grouped(value: float, decimals: int) -> str:
  """Returns a number in the form "1,234.5", with a minus sign, not a hyphen."""
  return with_minus(f"{round(value, decimals) + 0.0:,.{decimals}f}")


def short(value: float, digits: int, sign: str = "") -> str:
  """Returns a number for a narrow cell: "0.12", "1e+05", "–" if not finite."""
  if not math.isfinite(value):
    return "–"
  if abs(value) >= _LARGE:
    return with_minus(f"{value:{sign}.0e}")
  return with_minus(fixed(value, digits, sign))


def percent(share: float) -> str:
  """Returns a share in percent, without the percent sign."""
  return fixed(100 * share, 1)


def whole_percent(share: float) -> str:
  """Returns a share as "8 %"; a tiny one as "under 1 %"."""
  return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def p_value(value: float) -> str:
  """Returns a p-value as "=0.105" or "<0.001"; "" for NaN."""
  if math.isnan(value):
    return ""
  least = 10**-_P_DIGITS
  return f"<{least}" if value < least else f"={value:.{_P_DIGITS}f}"


def count(number: float, noun: str) -> str:
  """Returns "1 client" or "1,200 clients"."""
  return f"{number:,.10g} {noun}{'' if number == 1 else 's'}"


def how_many(counts: Sequence[int], total: int) -> str:
  """Returns the range of `counts`, one per seed, such as "0 or 1 of 8"."""
  found = sorted({*counts})
  match found:
    case [only]:
      shown = f"{only:,}"
    case [first, second] if second == first + 1:
      shown = f"{first:,} or {second:,}"
    case _:
      shown = f"{found[0]:,} to {found[-1]:,}"
  return f"{shown} of {total:,}"


def duration(seconds: float) -> str:
  """Returns "12 s", "3.5 min" or "2 h 5 min"; "unknown" if not finite."""
  if not math.isfinite(seconds):
    return "unknown"
  whole = round(seconds)
  hours, minutes = divmod(round(whole / 60), 60)
  if hours:
    return f"{hours} h {minutes} min"
  return f"{whole / 60:.1f} min" if whole >= 60 else f"{whole} s"
