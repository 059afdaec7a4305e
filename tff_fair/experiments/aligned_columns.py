"""Cells of a table, padded so that its columns are straight."""

from collections.abc import Sequence


def pad(lines: Sequence[Sequence[str]], *, gap: int = 0) -> list[list[str]]:
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
