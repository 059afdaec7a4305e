"""Writes CSV cells that spreadsheets do not run as formulas."""

from __future__ import annotations

import csv
import json
import re
import typing

if typing.TYPE_CHECKING:
  import pandas as pd

# A spreadsheet runs a cell that begins with =, +, @ or - as a formula, even if
# a stranger wrote it. A single quote before the text marks the cell as text.
# OWASP recommends this against "CSV injection":
# https://owasp.org/www-community/attacks/CSV_Injection


_FORMULA_PREFIXES = ("=", "+", "@", "-", "\t", "\r", "\n")
_QUOTE = "'"
# Characters that text files cannot contain: zero bytes and unpaired surrogates.
# A string with such a character is written as JSON.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def quote(text: str) -> str:
  """Returns a string as a cell that spreadsheets take as text.

  `unquote` restores the string.
  """
  if _UNWRITABLE.search(text):
    return json.dumps(text)
  return f"{_QUOTE}{text}" if _is_ambiguous(text) else text


def unquote(cell: str) -> str:
  """Returns the original string of a cell that `quote` returned."""
  text = cell.removeprefix(_QUOTE)
  if text != cell:
    return text if _is_ambiguous(text) else cell
  written_out = _from_json(cell)
  return cell if written_out is None else written_out


def csv_text(table: pd.DataFrame) -> str:
  """Returns a table as CSV; `unquote` restores the strings in its cells.

  Python's writer does not quote carriage returns, which readers take as the end
  of a row. So if a table has a carriage return, all its strings are quoted.
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
  return quote(value) if isinstance(value, str) else value


def _is_ambiguous(text: str) -> bool:
  """Returns whether a string looks like a formula, or like `quote`'s JSON."""
  # Leading quotes are ignored, so that `quote` also marks a string like "'=1".
  text = text.lstrip(_QUOTE)
  is_formula = text.startswith(_FORMULA_PREFIXES) and not _is_number(text)
  return is_formula or _from_json(text) is not None


def _from_json(cell: str) -> str | None:
  """Returns the string that `quote` wrote as JSON; None for other cells."""
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
