"""Draws a matrix in shades of two hues, for positive and negative values."""

import dataclasses
import math

import numpy as np

from tff_fair.experiments import number_text
from tff_fair.experiments.presenting.report.frame import (
  Frame,
  Group,
  Path,
  Text,
  box_path,
)

NUM_SHADES = 8  # The style sheet has classes .p1 to .p8 and .n1 to .n8.
_KEY_WIDTH = 12
_EQUAL = 1e-4  # Ignore smaller differences, relative to the largest value.


@dataclasses.dataclass(frozen=True)
class Shades:
  """Maps values to shades: equal steps away from zero, or up from `start`."""

  step: float
  num_positive: int
  num_negative: int
  is_clipped: bool  # Whether some values are beyond the last shade's range.
  start: float = 0.0

  def levels(self, values: np.ndarray) -> np.ndarray:
    """Returns shades: 1, 2, ... for values >= 0, -1, ... below, 0 for NaN."""
    with np.errstate(invalid="ignore"):
      # A value at the edge of two shades, such as the largest value, gets the
      # lower shade.
      steps = np.ceil(np.abs(values - self.start) / self.step - 1e-9)
      shades = np.where(
        values < 0,
        -np.clip(steps, 1, max(self.num_negative, 1)),
        np.clip(steps, 1, max(self.num_positive, 1)),
      )
    return np.where(np.isnan(values), 0, shades).astype(int)

  def text(self, steps: int) -> str:
    """Returns the value that is `steps` steps from the start, as text."""
    value = self.start + steps * self.step
    if self.start:  # Use as many decimals as distinguish the shades.
      decimals = max(0, -math.floor(math.log10(self.step)))
      return number_text.grouped(value, decimals)
    return number_text.with_minus(f"{float(f'{value:.2g}'):g}")


def shades_for(values: np.ndarray, *, from_zero: bool = True) -> Shades:
  """Returns shades that fit a matrix; may clip its few largest values."""
  present = values[np.isfinite(values)]
  if not present.size or not np.abs(present).max() > 0:
    return Shades(1.0, 1, 0, is_clipped=False)
  largest = float(np.abs(present).max())
  usual = float(np.quantile(np.abs(present), 0.99))
  is_clipped = usual > 0 and largest > 2 * usual
  limit = usual if is_clipped else largest
  smallest = float(present.min())
  if not from_zero and limit / 2 < smallest < (1 - _EQUAL) * limit:
    step = (limit - smallest) / NUM_SHADES
    return Shades(step, NUM_SHADES, 0, is_clipped, smallest)
  step = limit / NUM_SHADES
  low, high = max(-present.min(), 0), max(present.max(), 0)
  num_positive, num_negative = (
    int(min(np.ceil(side / step - 1e-9), NUM_SHADES)) for side in (high, low)
  )
  return Shades(step, num_positive, num_negative, is_clipped)


def cells(values: np.ndarray, shades: Shades, frame: Frame) -> Group:
  """Draws a matrix over the frame, with one path per shade and none for NaN."""
  found = shades.levels(values)
  rows, columns = found.shape
  # Round edges before drawing, so that neighbouring cells share them.
  x = np.round(np.linspace(frame.left, frame.width - frame.right, columns + 1))
  y = np.round(np.linspace(frame.top, frame.height - frame.bottom, rows + 1))
  paths: dict[int, list[str]] = {}
  for row in range(rows):
    # Neighbouring cells of one shade form one box.
    starts = np.flatnonzero(np.diff(found[row], prepend=found[row, 0] + 1))
    for start, end in zip(starts, [*starts[1:], columns], strict=True):
      if shade := int(found[row, start]):
        left, top = x[start], y[row]
        paths.setdefault(shade, []).append(
          box_path(left, top, x[end] - left, y[row + 1] - top)
        )
  return Group(
    [Path("".join(paths[n]), class_name(n)) for n in sorted(paths)], "cells"
  )


def legend(shades: Shades, frame: Frame, title: str = "") -> Group:
  """Draws the key of the shades, in the right margin of a frame."""
  numbers = [
    *range(shades.num_positive, 0, -1),
    *range(-1, -shades.num_negative - 1, -1),
  ]
  left, height = frame.width - frame.right + 10, frame.inner_height
  edges = frame.top + height * np.arange(len(numbers) + 1) / len(numbers)
  boxes = [
    Path(box_path(left, top, _KEY_WIDTH, bottom - top), class_name(n))
    for n, top, bottom in zip(numbers, edges, edges[1:], strict=False)
  ]
  marks = {shades.num_positive: 0, 0: shades.num_positive}
  if shades.num_negative:
    marks[-shades.num_negative] = len(numbers)
  beyond = "≥ " if shades.is_clipped else ""
  names = [
    Text(
      f"{beyond if step > 0 else ''}{shades.text(step)}",
      left + _KEY_WIDTH + 5,
      edges[place] + 4,
    )
    for step, place in marks.items()
  ]
  if title:
    names.append(Text(title, frame.width, frame.top - 12, "end"))
  return Group([*boxes, *names], "cells")


def class_name(shade: int) -> str:
  """Returns the name of a shade's class in the style sheet."""
  return f"p{shade}" if shade > 0 else f"n{-shade}"
