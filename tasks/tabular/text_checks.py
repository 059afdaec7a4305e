"""Tells categories from texts that no model of a table can learn from."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

# Each text has a weight of its own: more are names, numbers of people or days.
MOST = 1000

_DATE = re.compile(
  r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))"
  r"([T ]\d.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
# A column with few texts is one of categories, however long they are.
_MOST_WHATEVER_THEY_ARE = 50
_LONG = 50


class Refusal(NamedTuple):
  """Why texts are no categories: one of them, what is wrong, what to do."""

  example: str
  problem: str
  remedy: str


def leave_out(name: str) -> str:
  """Returns how to leave a column out, in words that begin a sentence."""
  return f"Leave it out (ignore={quoted(name)})"


def quoted(name: str) -> str:
  """Returns a column as an option with commas in between names it."""
  return f'"{name}"' if "," in name else name


def refusal(texts: Iterable[str], num_rows: int) -> Refusal | None:
  """Says why texts are no categories.

  Args:
    texts: The different texts of a column.
    num_rows: In how many rows there is a text.

  Returns:
    What is wrong; None if nothing is.
  """
  values = list(texts)
  if values and all(map(_DATE.fullmatch, values)):
    remedy = "make numbers of it, such as days since a day"
    return Refusal(values[0], "holds dates or times", remedy)
  if len(values) <= _MOST_WHATEVER_THEY_ARE:
    return None
  is_long = sum(map(len, values)) > _LONG * len(values)
  is_free = is_long or 2 * len(values) > num_rows
  if len(values) <= MOST and not is_free:
    return None
  words = [value for value in values if not _reads_as_number(value)]
  if words and 2 * len(words) < len(values):
    problem = "would hold numbers, but for some texts"
    return Refusal(words[0], problem, "correct these, or leave them empty")
  problem = (
    f"has more than {MOST:,} different texts"
    if len(values) > MOST
    else f"holds names or free text, {len(values):,} different ones"
  )
  return Refusal(values[0], problem, "group its texts")


def strays(counts: Mapping[str, int], missing: Collection[str]) -> list[str]:
  """Returns the texts without which a column would hold numbers.

  Args:
    counts: In how many rows each text is.
    missing: What stands for a missing number.

  Returns:
    The texts that are no numbers, if they are in fewer rows than numbers are;
    otherwise nothing: it is a column of texts.
  """
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
