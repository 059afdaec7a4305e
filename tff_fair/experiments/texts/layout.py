"""Formats text in lines and columns for a terminal."""

import textwrap
from collections.abc import Sequence

from tff_fair import escaping

_WIDTH = 80


def wrap(text: str) -> str:
  """Wraps a sentence to the width of a terminal."""
  return textwrap.fill(
    escaping.line(text),
    _WIDTH,
    break_on_hyphens=False,
    break_long_words=False,
  )


def align(lines: Sequence[Sequence[str]], *, gap: int = 0) -> list[list[str]]:
  """Pads the cells of `lines` to the widths of their columns.

  The first column is left-aligned; others are right-aligned, `gap` wider.
  """
  padded = []
  for place, column in enumerate(zip(*lines, strict=True)):
    width = max(map(len, column)) + (gap if place else 0)
    padded.append([f"{c:{'>' if place else '<'}{width}}" for c in column])
  return [list(line) for line in zip(*padded, strict=True)]


def table(lines: Sequence[Sequence[str]]) -> str:
  """Formats lines of cells as a table for a terminal."""
  return "\n".join("".join(line).rstrip() for line in align(lines, gap=2))
