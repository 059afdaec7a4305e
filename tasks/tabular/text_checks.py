"""Tells categories from texts that no model of a table can learn from."""

import re
from collections.abc import Iterable

# Each text has a weight of its own: more are names, numbers of people or days.
MOST = 1000

_DATE = re.compile(
  r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))"
  r"([T ]\d.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
# A column with few texts is one of categories, however long they are.
_MOST_WHATEVER_THEY_ARE = 50
_LONG = 50


def refusal(texts: Iterable[str], num_rows: int) -> tuple[str, str] | None:
  """Says why texts are no categories.

  Args:
    texts: The different texts of a column.
    num_rows: In how many rows there is a text.

  Returns:
    One of the texts, and what is wrong with the column; None if nothing is.
  """
  values = list(texts)
  if values and all(map(_DATE.fullmatch, values)):
    return values[0], "holds dates or times"
  if len(values) <= _MOST_WHATEVER_THEY_ARE:
    return None
  words = [value for value in values if not _reads_as_number(value)]
  if len(values) > MOST:
    if words and 2 * len(words) < len(values):
      return words[0], "would hold numbers, but for some texts"
    return values[0], f"has more than {MOST:,} different texts"
  is_long = sum(map(len, values)) > _LONG * len(values)
  if is_long or 2 * len(values) > num_rows:
    return values[0], f"holds names or free text, {len(values)} different ones"
  return None


def _reads_as_number(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return True
