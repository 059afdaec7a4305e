"""Lines of curves, and scales and words that fit them."""

import math
from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.reporting import scale
from tff_fair.experiments.reporting.curves import Curve
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.reporting.scale import Scale


def line(
  method: Method, curve: Curve, x: np.ndarray, *, factor: float = 1
) -> Line:
  """Returns the line of a method.

  Args:
    method: The method.
    curve: Its values.
    x: float[n], where each value stands; NaN leaves the value out.
    factor: The chart shows the values multiplied by this, as 100 for percent.
  """
  known = np.isfinite(x)
  spread = None if curve.std is None else factor * curve.std[known]
  return Line(
    method.label,
    method.number,
    method.style,
    x[known],
    factor * curve.mean[known],
    spread,
  )


def x_scale(lines: Sequence[Line], *, is_whole: bool) -> Scale:
  """Returns a scale from 0 to the end of the longest line.

  Args:
    lines: At least one.
    is_whole: Whether x counts something, such as rounds.
  """
  last = max(float(line.x[-1]) for line in lines)
  return scale.linear(0, last, is_tight=True, is_whole=is_whole)


def y_scale(
  lines: Sequence[Line], *, is_percent: bool, least: float = 0
) -> Scale:
  """Returns a scale for all finite values of lines and bands.

  Args:
    lines: At least one.
    is_percent: Whether y goes from 0 to 100; otherwise, values that differ
      much have a logarithmic scale.
    least: The smallest value that y may have.
  """
  low, high = _range([line.y for line in lines])
  if not is_percent and (wide := scale.logarithmic(low, high)) is not None:
    return wide  # It has no place for 0, to which bands may go down.
  bands = [
    line.y + sign * line.spread
    for line in lines
    if line.spread is not None
    for sign in (-1, 1)
  ]
  low, high = _range([*(line.y for line in lines), *bands])
  most = 100 if is_percent else math.inf
  return scale.linear(max(low, least), min(high, most), bounds=(least, most))


def describe(lines: Sequence[Line], where: str, unit: str) -> str:
  """Returns a sentence with the last value of each line.

  Args:
    lines: At least one.
    where: Where the lines end, as "the end".
    unit: Follows each value, as " %".
  """
  values = [
    f"{line.label} {scale.number_text(line.y[-1], 2)}{unit}"
    if np.isfinite(line.y[-1])
    else f"{line.label} not finite"
    for line in lines
  ]
  return f"At {where}: {', '.join(values)}."


def _range(parts: Sequence[np.ndarray]) -> tuple[float, float]:
  values = np.concatenate(parts)
  values = values[np.isfinite(values)]
  return (values.min(), values.max()) if values.size else (0.0, 1.0)
