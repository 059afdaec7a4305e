"""Numbers that a table holds as texts: with a unit, or in other signs."""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tasks.tabular import text_checks

# Above this share of its different texts, a column means numbers.
_MEANS_NUMBERS = 0.95
_CURRENCIES = "$\u20ac\u00a3\u00a5"
# A unit begins with a letter, or with one of these signs.
_UNIT = rf"(?:[^\W\d_]|[%\u2030\u00b0{_CURRENCIES}]).*"
_MINUS = "\u2212"


class Signs(NamedTuple):
  """The signs that numbers are written with.

  Attributes:
    decimal: What stands before the decimals.
    thousands: What stands between thousands; None means nothing.
  """

  decimal: str = "."
  thousands: str | None = None

  def options(self, other: "Signs") -> list[str]:
    """Returns the options of `table` that say so where others hold."""
    return [
      f"{option}={sign if sign in ',.' else repr(sign)}"
      for option, sign in self._asdict().items()
      if sign != getattr(other, option)
    ]


_ALL_SIGNS = [
  Signs(decimal, thousands)
  for decimal in ".,"
  for thousands in (None, *",. '")
  if thousands != decimal
]


class Written(NamedTuple):
  """A number as it is written: its value, and its unit or nothing."""

  value: float
  unit: str


def read(text: str, signs: Signs) -> Written | None:
  """Reads a number, which may have a unit; None of other texts.

  A text that begins with 0 and another digit is a code.
  """
  match = _pattern(signs).fullmatch(text.strip())
  if match is None:
    return None
  currency, number, unit = match.groups()
  if signs.thousands:
    number = number.replace(signs.thousands, "")
  number = number.replace(signs.decimal, ".").replace(_MINUS, "-")
  return Written(float(number), (currency or unit or "").strip())


@functools.lru_cache
def _pattern(signs: Signs) -> re.Pattern[str]:
  whole = r"0|[1-9]\d*"
  if signs.thousands:
    whole = rf"[1-9]\d{{0,2}}(?:{re.escape(signs.thousands)}\d{{3}})+|{whole}"
  point = re.escape(signs.decimal)
  return re.compile(
    rf"([{_CURRENCIES}])?\s*"
    rf"([+\-{_MINUS}]?(?:(?:{whole})(?:{point}\d+)?|{point}\d+)"
    r"(?:[eE][+-]?\d+)?)"
    rf"(\s*{_UNIT})?"
  )


def values(
  texts: Sequence[str], signs: Signs, missing: Collection[str]
) -> tuple[np.ndarray, tuple[str, str] | None]:
  """Returns the numbers that texts mean, all of one unit or without.

  Args:
    texts: The texts.
    signs: How the numbers are written.
    missing: Texts that stand for a missing number.

  Returns:
    float64[n], NaN for a missing one; and a text that is no such number, with
    what is wrong with it, if there is one.
  """
  found = np.full(len(texts), np.nan)
  known: Written | None = None
  for k, text in enumerate(texts):
    if text in missing:
      continue
    written = read(text, signs)
    if written is None:
      return found, (text, "is no number")
    if written.unit:
      known = known or written
      if written.unit != known.unit:
        return found, (text, f"has another unit than others, {known.unit!r}")
    found[k] = written.value
  return found, None


def refusal(
  texts: Iterable[str], signs: Signs, column: str, *, are_final: bool
) -> text_checks.Refusal | None:
  """Says that texts mean numbers, and which option reads them.

  Args:
    texts: The different texts of a column, no missing ones.
    signs: How the numbers of its table are written.
    column: The column, as an option names it.
    are_final: Whether no option can change these signs.

  Returns:
    What is wrong; None if at most 95 % of the texts are numbers, of one unit.
  """
  present = list(texts)
  unit = _common_unit(present, signs)
  if unit is not None:
    united = [v for v in present if (w := read(v, signs)) and w.unit]
    if not united:
      return None
    return text_checks.Refusal(
      united[0],
      f"holds numbers with a unit, {unit}",
      f"give units={column} for numbers, categories={column} for texts",
    )
  if are_final:
    return None
  ways = [
    [*other.options(signs), *([f"units={column}"] if unit else [])]
    for other in _ALL_SIGNS
    if (unit := _common_unit(present, other)) is not None
  ]
  if not ways:
    return None
  fewest = min(map(len, ways))
  shown = " or ".join(" ".join(way) for way in ways if len(way) == fewest)
  return text_checks.Refusal(
    next(v for v in present if read(v, signs) is None),
    "holds numbers in other signs than the file",
    f"give {shown} for numbers, categories={column} for texts",
  )


def _common_unit(texts: Sequence[str], signs: Signs) -> str | None:
  """Returns the unit of nearly all numbers, "" for none; None if few are."""
  written = [found for text in texts if (found := read(text, signs))]
  units = Counter(found.unit for found in written)
  num_plain = units.pop("", 0)
  unit, count = next(iter(units.most_common(1)), ("", 0))
  is_common = num_plain + count > _MEANS_NUMBERS * len(texts)
  return unit if is_common else None
