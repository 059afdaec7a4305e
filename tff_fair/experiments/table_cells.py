"""Cells of tables as text: aligned for readers, and safe in spreadsheets."""

from collections.abc import Sequence

# Cells padded so that the columns of a table are straight.


def aligned(lines: Sequence[Sequence[str]], *, gap: int = 0) -> list[list[str]]:
  """Pads cells to the width of their columns.

  Args:
    lines: Lines of as many cells each.
    gap: Spaces before each column but the first.

  Returns:
    The lines; the first column is set to the left, the others to the right.
  """
  padded = []
  for place, column in enumerate(zip(*lines, strict=True)):
    width = max(map(len, column)) + (gap if place else 0)
    padded.append([f"{c:{'>' if place else '<'}{width}}" for c in column])
  return [list(line) for line in zip(*padded, strict=True)]


# Texts of users in CSV files that people open in a spreadsheet.
#
# A spreadsheet takes a cell that begins with =, +, @ or - for a formula and
# runs it, even if a stranger wrote it. A single quote before it marks it as a
# text. This is what OWASP recommends against "CSV injection":
# https://owasp.org/www-community/attacks/CSV_Injection


_FIRST = ("=", "+", "@", "-", "\t", "\r", "\n")
_QUOTE = "'"


def quoted(text: str) -> str:
  """Returns a text as a cell that no spreadsheet runs; `unquoted` undoes it."""
  return f"{_QUOTE}{text}" if _is_formula(text) else text


def unquoted(cell: str) -> str:
  """Returns the text of a cell that `quoted` made."""
  text = cell.removeprefix(_QUOTE)
  return text if _is_formula(text) else cell


def _is_formula(text: str) -> bool:
  # Quotes that a text has of its own are told from ours by their number.
  text = text.lstrip(_QUOTE)
  return text.startswith(_FIRST) and not _is_number(text)


def _is_number(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return text == text.strip()
