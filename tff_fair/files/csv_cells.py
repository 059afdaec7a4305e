"""Cells of CSV files that no spreadsheet runs as a formula."""

from __future__ import annotations

import csv
import json
import re
import typing

if typing.TYPE_CHECKING:
  import pandas as pd

# Texts of users in CSV files that people open in a spreadsheet.
#
# A spreadsheet takes a cell that begins with =, +, @ or - for a formula and
# runs it, even if a stranger wrote it. A single quote before it marks it as a
# text. This is what OWASP recommends against "CSV injection":
# https://owasp.org/www-community/attacks/CSV_Injection


_FIRST = ("=", "+", "@", "-", "\t", "\r", "\n")
_QUOTE = "'"
# What no text file holds: zero bytes and halves of characters. A text with one
# is written as JSON writes it.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def quoted(text: str) -> str:
  """Returns a text as a cell that no spreadsheet runs; `unquoted` undoes it."""
  if _UNWRITABLE.search(text):
    return json.dumps(text)
  return f"{_QUOTE}{text}" if _is_ambiguous(text) else text


def unquoted(cell: str) -> str:
  """Returns the text of a cell that `quoted` made."""
  text = cell.removeprefix(_QUOTE)
  if text != cell:
    return text if _is_ambiguous(text) else cell
  written_out = _from_json(cell)
  return cell if written_out is None else written_out


def csv_text(table: pd.DataFrame) -> str:
  """Returns a table as CSV, whose texts `unquoted` gives back as they were.

  Python's writer leaves a carriage return without quotes, which ends a row for
  readers. So all texts of a table that holds one are quoted.
  """
  texts = table.select_dtypes(["object", "string"])
  table = table.assign(**{name: texts[name].map(_cell) for name in texts})
  text = table.to_csv(index=False, lineterminator="\n")
  if "\r" not in text:
    return text
  return table.to_csv(
    index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
  )


def _cell(value: object) -> object:
  return quoted(value) if isinstance(value, str) else value


def _is_ambiguous(text: str) -> bool:
  """Returns whether a text needs a quote: a formula, or JSON as of `quoted`."""
  # The number of quotes distinguishes a text's own quotes from ours.
  text = text.lstrip(_QUOTE)
  is_formula = text.startswith(_FIRST) and not _is_number(text)
  return is_formula or _from_json(text) is not None


def _from_json(cell: str) -> str | None:
  """Returns the text that `quoted` wrote as JSON; None of other cells."""
  if not cell.startswith('"'):
    return None
  try:
    text = json.loads(cell)
  except ValueError:
    return None
  is_ours = isinstance(text, str) and _UNWRITABLE.search(text)
  return text if is_ours else None


def _is_number(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return text == text.strip()
