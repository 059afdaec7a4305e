"""A scatter chart of two measures, with its Pareto front."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report.frame import (
  LETTER_WIDTH,
  Chart,
  Frame,
  Group,
  Path,
  Text,
)
from tff_fair.experiments.presenting.report.task_runs import Style
from tff_fair.metrics.intervals import Interval

_MAX_NAMES = 14
_LINE_HEIGHT, _GAP = 12.0, 8.0
_MOST_HIDDEN = LETTER_WIDTH * _LINE_HEIGHT / 2  # Half a letter's area.


class Point(NamedTuple):
  """A method, run or trial: its name, style, coordinates and values as text."""

  label: str
  style: Style
  x: float
  y: float
  values: str
  x_interval: Interval | None = None
  y_interval: Interval | None = None


def pareto_front(x: Sequence[float], y: Sequence[float]) -> list[int]:
  """Returns the indices of undominated points (more is better), by rising x."""
  points = [
    (a, b, place)
    for place, (a, b) in enumerate(zip(x, y, strict=True))
    if not (np.isnan(a) or np.isnan(b))
  ]
  front: list[tuple[float, float, int]] = []
  for a, b, place in sorted(points, key=lambda p: (-p[0], -p[1], p[2])):
    if not front or b > front[-1][1] or (a, b) == front[-1][:2]:
      front.append((a, b, place))
  return [place for _, _, place in reversed(front)]


def front_of(points: Sequence[Point], x: Measure, y: Measure) -> list[int]:
  """Returns the indices of the points that are on the Pareto front."""
  return pareto_front(
    [-measures.sort_key(x, point.x) for point in points],
    [-measures.sort_key(y, point.y) for point in points],
  )


def draw(
  points: Sequence[Point],
  frame: Frame,
  *,
  identifier: str,
  title: str,
  description: str,
  front: Sequence[int],
) -> Chart:
  """Draws points with their intervals, and a line through those in `front`."""
  on_front = [points[place] for place in front]
  parts = [
    *frame.axes(),
    *([_front(on_front, frame)] if len(on_front) > 1 else []),
    *(draw_point(point, frame) for point in points),
    *(_names(points, front, frame) if len(points) <= _MAX_NAMES else []),
  ]
  return frame.drawing(identifier, title, description, parts)


def _front(points: Sequence[Point], frame: Frame) -> Path:
  x = frame.x_pixels([point.x for point in points])
  y = frame.y_pixels([point.y for point in points])
  # Draw steps, not slopes, as no method lies between two methods.
  steps = "".join(
    f"V{b:.1f}H{a:.1f}" for a, b in zip(x[1:], y[1:], strict=True)
  )
  return Path(f"M{x[0]:.1f} {y[0]:.1f}{steps}", "front")


def draw_point(point: Point, frame: Frame) -> Group:
  """Draws a point's marker over its intervals."""
  (x,), (y,) = frame.x_pixels([point.x]), frame.y_pixels([point.y])
  whiskers = ""
  if point.x_interval:
    left, right = frame.x_pixels(frame.x.clipped(point.x_interval))
    whiskers += f"M{left:.1f} {y:.1f}H{right:.1f}"
  if point.y_interval:
    low, high = frame.y_pixels(point.y_interval)
    whiskers += f"M{x:.1f} {low:.1f}V{high:.1f}"
  place = f"translate({x:.1f} {y:.1f}) scale(1.35)"
  marker = Path(point.style.marker, "marker", transform=place)
  parts = [Path(whiskers, "whiskers"), marker] if whiskers else [marker]
  title = f"{point.label}: {point.values}"
  return Group(parts, f"series {point.style.classes}", title)


def _names(
  points: Sequence[Point], front: Sequence[int], frame: Frame
) -> list[Text]:
  """Returns the names that fit beside their points, those in `front` first."""
  x = frame.x_pixels([point.x for point in points])
  y = frame.y_pixels([point.y for point in points])
  taken = [(a - 5, b - 5, a + 5, b + 5) for a, b in zip(x, y, strict=True)]
  names = []
  for place in dict.fromkeys([*front, *range(len(points))]):
    point, a, b = points[place], x[place], y[place]
    width = LETTER_WIDTH * len(point.label)
    places = [
      ("start", a + _GAP, b + 4, a + _GAP),
      ("end", a - _GAP, b + 4, a - _GAP - width),
      ("middle", a, b - _GAP, a - width / 2),
      ("middle", a, b + _GAP + 8, a - width / 2),
      ("start", a + _GAP, b - _GAP, a + _GAP),
      ("start", a + _GAP, b + _GAP + 8, a + _GAP),
      ("end", a - _GAP, b - _GAP, a - _GAP - width),
      ("end", a - _GAP, b + _GAP + 8, a - _GAP - width),
    ]
    boxes = [
      (left, base - _LINE_HEIGHT + 2, left + width, base + 2)
      for _, _, base, left in places
    ]
    costs = [_overlap(box, taken) + _overflow(box, frame) for box in boxes]
    best = int(np.argmin(costs))
    if costs[best] > _MOST_HIDDEN:
      continue
    anchor, at, base, _ = places[best]
    taken.append(boxes[best])
    names.append(
      Text(point.label, at, base, anchor, f"name m{point.style.number}")
    )
  return names


_Box = tuple[float, float, float, float]


def _overlap(box: _Box, others: Sequence[_Box]) -> float:
  return sum(
    max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
    * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
    for other in others
  )


def _overflow(box: _Box, frame: Frame) -> float:
  floor = frame.height - frame.bottom
  beyond = max(0.0, frame.left - box[0]) + max(0.0, box[2] - frame.width)
  beyond += max(0.0, frame.top - box[1]) + max(0.0, box[3] - floor)
  return 100 * beyond
