"""Lines with bands, one for each method."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_fair.experiments import number_text
from tff_fair.experiments.presenting.report.frame import (
  Chart,
  Frame,
  Group,
  Path,
  band_path,
  line_path,
)
from tff_fair.experiments.presenting.report.task_runs import Style

_MAX_POINTS = 120  # More would look the same on a chart of this size.
_MAX_MARKERS = 6
_MANY = 12  # The most lines that readers can distinguish.


@dataclasses.dataclass(frozen=True)
class Line:
  """A line to draw; its spread is half the width of the band around it."""

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
) -> Chart:
  """Draws lines."""
  x_name = x_name or frame.x_label
  parts = [
    *frame.axes(),
    # Draw bands first, so that none hides a line.
    *(_band(line, frame) for line in lines if line.spread is not None),
    *(_line(line, frame, x_name, y_unit, decimals) for line in lines),
  ]
  many = "many" if len(lines) > _MANY else ""
  return frame.drawing(identifier, title, description, parts, many)


def downsample(x: np.ndarray, y: np.ndarray, limit: int) -> np.ndarray:
  """Returns the indices of points that show a curve best, such as its peaks."""
  # The algorithm is "largest triangle three buckets" (Steinarsson, 2013).
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


def _band(line: Line, frame: Frame) -> Path:
  shown = downsample(line.x, line.y, _MAX_POINTS)
  low, high = line.y - line.spread, line.y + line.spread
  if frame.y.is_logarithmic:  # Clip values without a logarithm to the edge.
    low = np.where(low > 0, low, frame.y.low)
  path = band_path(
    frame.x_pixels(line.x[shown]),
    frame.y_pixels(low[shown]),
    frame.y_pixels(high[shown]),
  )
  return Path(path, f"band {line.style.classes}")


def _line(
  line: Line, frame: Frame, x_name: str, y_unit: str, decimals: int
) -> Group:
  shown = downsample(line.x, line.y, _MAX_POINTS)
  x, y = frame.x_pixels(line.x), frame.y_pixels(line.y)
  path = Path(line_path(x[shown], y[shown]), "line", dashes=line.style.dashes)
  markers = [
    Path(
      line.style.marker,
      "marker",
      f"{line.label}, {x_name} {_value(line.x[n])}: "
      f"{_mean_and_spread(line, n, decimals)}{y_unit}",
      transform=f"translate({x[n]:.1f} {y[n]:.1f})",
    )
    for n in _marker_indices(line)
    if np.isfinite(x[n]) and np.isfinite(y[n])
  ]
  return Group([path, *markers], f"series {line.style.classes}", line.label)


def _marker_indices(line: Line) -> np.ndarray:
  """Returns the indices of a line's markers, which differ between lines."""
  count = len(line.x)
  if count <= _MAX_MARKERS:
    return np.arange(count)
  # Distances are even, and each line starts at a different point.
  shift = (line.style.number * 0.381966) % 1
  wanted = line.x[0] + (line.x[-1] - line.x[0]) * (
    (np.arange(_MAX_MARKERS) + shift) / _MAX_MARKERS
  )
  return np.unique(np.clip(np.searchsorted(line.x, wanted), 0, count - 1))


def _mean_and_spread(line: Line, n: int, decimals: int) -> str:
  mean = number_text.grouped(line.y[n], decimals)
  if line.spread is None:
    return mean
  return f"{mean} ± {number_text.grouped(line.spread[n], decimals)}"


def _value(value: float) -> str:
  return number_text.grouped(value, 0 if value == round(value) else 2)
