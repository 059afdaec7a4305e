"""Interprets text columns: categories, numbers with units, or words."""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tff_fair import declared

# The most categories of a column, since each category has weights in the model.
# A column with more distinct texts has ids, names or dates.
MAX_CATEGORIES = 1000

_DATE = re.compile(
  r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))"
  r"([T ]\d.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
# A column with few distinct texts has categories, however long they are.
_MAX_UNCHECKED_CATEGORIES = 50
_LONG = 50


class Refusal(NamedTuple):
  """Why texts are not categories: an example, the problem, the remedy."""

  example: str
  problem: str
  remedy: str


def leave_out(name: str) -> str:
  """Returns the beginning of a sentence on how to leave a column out."""
  return f"Leave it out (ignore={declared.as_text([name])})"


def refusal(texts: Iterable[str], num_rows: int) -> Refusal | None:
  """Returns why texts are not categories; None if they are."""
  values = list(texts)
  if values and all(map(_DATE.fullmatch, values)):
    remedy = "convert it to numbers, such as days since a date"
    return Refusal(values[0], "holds dates or times", remedy)
  if len(values) <= _MAX_UNCHECKED_CATEGORIES:
    return None
  is_long = sum(map(len, values)) > _LONG * len(values)
  is_free = is_long or 2 * len(values) > num_rows
  if len(values) <= MAX_CATEGORIES and not is_free:
    return None
  words = [value for value in values if not _reads_as_number(value)]
  if words and 2 * len(words) < len(values):
    problem = "holds numbers, except for some texts"
    return Refusal(words[0], problem, "correct these, or leave them empty")
  problem = (
    f"has more than {MAX_CATEGORIES:,} different texts"
    if len(values) > MAX_CATEGORIES
    else f"holds names or free text, {len(values):,} different ones"
  )
  return Refusal(values[0], problem, "group its texts")


def strays(counts: Mapping[str, int], missing: Collection[str]) -> list[str]:
  """Returns texts that are not numbers, if most rows are numbers; else []."""
  present = {text: n for text, n in counts.items() if text not in missing}
  words = [text for text in present if not _reads_as_number(text)]
  num_words = sum(present[text] for text in words)
  return words if 2 * num_words < sum(present.values()) else []


def _reads_as_number(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return True


# The functions below read numbers with a unit, or with other signs than the
# file's.

# If more than this share of a column's distinct texts are numbers, all must be.
_NUMERIC_SHARE = 0.95
_CURRENCIES = "$\u20ac\u00a3\u00a5"
# A unit begins with a letter or one of these signs.
_UNIT = rf"(?:[^\W\d_]|[%\u2030\u00b0{_CURRENCIES}]).*"
_MINUS = "\u2212"


class Signs(NamedTuple):
  """The signs in written numbers."""

  decimal: str = "."  # The sign before the decimals.
  # The sign between thousands, if any.
  thousands: str | None = None

  def options(self, other: "Signs") -> list[str]:
    """Returns options of the task `table` that set these signs, not `other`."""
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


class ParsedNumber(NamedTuple):
  """A written number: its value, and its unit or ""."""

  value: float
  unit: str


def read_number(text: str, signs: Signs) -> ParsedNumber | None:
  """Parses a number, perhaps with a unit.

  Returns None for other texts, and for codes, which begin with 0 and another
  digit.
  """
  match = _pattern(signs).fullmatch(text.strip())
  if match is None:
    return None
  currency, number, unit = match.groups()
  if signs.thousands:
    number = number.replace(signs.thousands, "")
  number = number.replace(signs.decimal, ".").replace(_MINUS, "-")
  return ParsedNumber(float(number), (currency or unit or "").strip())


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


def parse_numbers(
  texts: Sequence[str], signs: Signs, missing: Collection[str]
) -> tuple[np.ndarray, tuple[str, str] | None]:
  """Returns the numbers in texts, float64[n], and the first fault, if any.

  All numbers must have the same unit, or none. The fault is a text that is not
  a number or has another unit, and the problem in words.
  """
  found = np.full(len(texts), np.nan)
  known: ParsedNumber | None = None
  for k, text in enumerate(texts):
    if text in missing:
      continue
    written = read_number(text, signs)
    if written is None:
      return found, (text, "is not a number")
    if written.unit:
      known = known or written
      if written.unit != known.unit:
        return found, (text, f"has another unit than others, {known.unit!r}")
    found[k] = written.value
  return found, None


def number_refusal(
  texts: Iterable[str], signs: Signs, column: str
) -> Refusal | None:
  """Returns a refusal that names the options to read a column's numbers.

  Returns None if no options are needed, or too few texts are numbers.
  """
  present = list(texts)
  unit = _common_unit(present, signs)
  if unit is not None:
    united = [v for v in present if (w := read_number(v, signs)) and w.unit]
    if not united:
      return None
    return Refusal(
      united[0],
      f"holds numbers with a unit, {unit}",
      f"give units={column} for numbers, categories={column} for texts",
    )
  ways = [
    [*other.options(signs), *([f"units={column}"] if unit else [])]
    for other in _ALL_SIGNS
    if (unit := _common_unit(present, other)) is not None
  ]
  if not ways:
    return None
  fewest = min(map(len, ways))
  shown = " or ".join(" ".join(way) for way in ways if len(way) == fewest)
  return Refusal(
    next(v for v in present if read_number(v, signs) is None),
    "holds numbers with other signs than the file",
    f"give {shown} for numbers, categories={column} for texts",
  )


def _common_unit(texts: Sequence[str], signs: Signs) -> str | None:
  """Returns the most frequent unit in texts, or "" if there are no units.

  Returns None unless nearly all texts are numbers with this unit or with none.
  """
  written = [found for text in texts if (found := read_number(text, signs))]
  units = Counter(found.unit for found in written)
  num_plain = units.pop("", 0)
  unit, count = next(iter(units.most_common(1)), ("", 0))
  is_common = num_plain + count > _NUMERIC_SHARE * len(texts)
  return unit if is_common else None


# The rest of this file encodes a text by the shares of frequent words in it.

# Letters and digits, with apostrophes between them.
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


class BagOfWords:
  """Encodes texts as x, the shares of the most frequent words."""

  def __init__(
    self, texts: Sequence[str], train: np.ndarray, num_words: int
  ) -> None:
    """Counts the words of the training texts, at positions `train`."""
    counts = Counter(
      word for position in train for word in _words(texts[position])
    )
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    # The most frequent words of the training texts, in descending order; ties
    # in alphabetical order.
    self.words = ordered[:num_words]
    number = {word: k for k, word in enumerate(self.words)}
    self._numbers = [
      np.array([number[w] for w in _words(text) if w in number], np.int32)
      for text in texts
    ]

  def __call__(self, positions: np.ndarray) -> np.ndarray:
    """Returns x of texts, float32[n, words]; 0 for a text without words."""
    x = np.zeros([len(positions), len(self.words)], np.float32)
    for row, position in zip(x, positions, strict=True):
      numbers = self._numbers[position]
      np.add.at(row, numbers, np.float32(1 / max(1, len(numbers))))
    return x


def _words(text: str) -> list[str]:
  return _WORD.findall(text.lower())
