"""Lines with bands, one for each method."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.presenting.report.frame import (
  Frame,
  band_path,
  line_path,
)
from tff_fair.experiments.presenting.report.markup import Markup, element
from tff_fair.experiments.presenting.report.scale import number_text
from tff_fair.experiments.presenting.report.task_runs import Style

_MAX_POINTS = 120  # That differ to the eye on a chart of this size.
_MAX_MARKERS = 6
_MANY = 12  # Lines that are easily told apart.


@dataclasses.dataclass(frozen=True)
class Line:
  """A line to draw.

  Attributes:
    label: Its name.
    style: Its look, that of a method.
    x: float[n], ascending.
    y: float[n].
    spread: float[n], half the width of the band; None without one.
  """

  label: str
  style: Style
  x: np.ndarray
  y: np.ndarray
  spread: np.ndarray | None = None


def draw(
  lines: Sequence[Line],
  frame: Frame,
  *,
  identifier: str,
  title: str,
  description: str,
  x_name: str = "",
  y_unit: str = "",
  decimals: int = 2,
) -> Markup:
  """Draws lines."""
  return frame.drawing(
    identifier,
    title,
    description,
    frame.axes(),
    # Bands first: none hides a line.
    [_band(line, frame) for line in lines if line.spread is not None],
    [
      _line(line, frame, x_name or frame.x_label, y_unit, decimals)
      for line in lines
    ],
    class_="many" if len(lines) > _MANY else None,
  )


def thin(x: np.ndarray, y: np.ndarray, limit: int) -> np.ndarray:
  """Chooses the points that show a curve best, its peaks above all.

  Largest triangle three buckets (Steinarsson, 2013): of each of `limit` - 2
  stretches, the point that makes the largest triangle with the one chosen
  before and the mean of the next stretch.

  Args:
    x: float[n], ascending.
    y: float[n].
    limit: Number of points to keep, 3 or more.

  Returns:
    int[min(n, limit)]: Their places, ascending, the first and last among them.
  """
  count = len(x)
  if count <= limit:
    return np.arange(count)
  y = np.where(np.isfinite(y), y, 0)
  edges = np.linspace(1, count - 1, limit - 1).astype(int)
  chosen = [0]
  for n in range(limit - 2):
    here = slice(edges[n], edges[n + 1])
    after = slice(edges[n + 1], edges[n + 2] if n + 2 < limit - 1 else count)
    last = chosen[-1]
    areas = np.abs(
      (x[last] - x[after].mean()) * (y[here] - y[last])
      - (x[last] - x[here]) * (y[after].mean() - y[last])
    )
    chosen.append(edges[n] + int(np.argmax(areas)))
  return np.array([*chosen, count - 1])


def _band(line: Line, frame: Frame) -> Markup:
  shown = thin(line.x, line.y, _MAX_POINTS)
  low, high = line.y - line.spread, line.y + line.spread
  if frame.y.is_logarithmic:  # A value without logarithm is far below.
    low = np.where(low > 0, low, frame.y.low)
  path = band_path(
    frame.x_pixels(line.x[shown]),
    frame.y_pixels(low[shown]),
    frame.y_pixels(high[shown]),
  )
  return element("path", d=path, class_=f"band {line.style.classes}")


def _line(
  line: Line, frame: Frame, x_name: str, y_unit: str, decimals: int
) -> Markup:
  shown = thin(line.x, line.y, _MAX_POINTS)
  x, y = frame.x_pixels(line.x), frame.y_pixels(line.y)
  path = element(
    "path",
    d=line_path(x[shown], y[shown]),
    class_="line",
    stroke_dasharray=line.style.dashes,
  )
  markers = [
    element(
      "path",
      element(
        "title",
        f"{line.label}, {x_name} "
        f"{_value(line.x[n])}: {_mean_and_spread(line, n, decimals)}{y_unit}",
      ),
      d=line.style.marker,
      transform=f"translate({x[n]:.1f} {y[n]:.1f})",
      class_="marker",
    )
    for n in _marked(line)
    if np.isfinite(x[n]) and np.isfinite(y[n])
  ]
  return element(
    "g",
    element("title", line.label),
    path,
    markers,
    class_=f"series {line.style.classes}",
  )


def _marked(line: Line) -> np.ndarray:
  """Returns the places of markers; they differ between lines."""
  count = len(line.x)
  if count <= _MAX_MARKERS:
    return np.arange(count)
  # Evenly far apart to the eye; the lines begin at different places.
  shift = (line.style.number * 0.381966) % 1
  wanted = line.x[0] + (line.x[-1] - line.x[0]) * (
    (np.arange(_MAX_MARKERS) + shift) / _MAX_MARKERS
  )
  return np.unique(np.clip(np.searchsorted(line.x, wanted), 0, count - 1))


def _mean_and_spread(line: Line, n: int, decimals: int) -> str:
  mean = number_text(line.y[n], decimals)
  if line.spread is None:
    return mean
  return f"{mean} ± {number_text(line.spread[n], decimals)}"


def _value(value: float) -> str:
  return number_text(value, 0 if value == round(value) else 2)
