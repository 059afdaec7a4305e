"""Records that templates render as SVG charts: a frame, and shapes in it."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tff_fair.experiments.presenting.rendering import TemplateRecord
from tff_fair.experiments.presenting.report.scale import Scale

LETTER_WIDTH = 7  # The mean width of a letter in a chart, in pixels.


class Path(NamedTuple):
  """A line or an area, with a title as its tooltip."""

  d: str
  class_: str
  title: str = ""
  dashes: str | None = None
  transform: str = ""


class Text(NamedTuple):
  """Words at the pixel (x, y)."""

  words: str
  x: float
  y: float
  anchor: str = "start"
  class_: str = ""


class Group(NamedTuple):
  """Shapes that belong together, with a title as their tooltip."""

  parts: Sequence["Shape"]
  class_: str
  title: str = ""


Shape: TypeAlias = Path | Text | Group


@dataclasses.dataclass(frozen=True)
class Chart(TemplateRecord):
  """A drawing, with a title and a description for screen readers."""

  template = "chart.svg"

  identifier: str
  title: str
  description: str
  parts: Sequence[Shape]
  width: int
  height: int
  class_: str = ""


@dataclasses.dataclass(frozen=True)
class Figure(TemplateRecord):
  """A chart with a title above it and a note below it."""

  template = "figure.html"

  chart: Chart
  title: str
  note: str = ""
  class_: str = ""


@dataclasses.dataclass(frozen=True)
class Frame:
  """The plot area of a chart: its scales, the chart's size and the margins."""

  x: Scale
  y: Scale
  x_label: str = ""
  width: int = 480
  height: int = 290
  left: int = 46
  bottom: int = 42
  right: int = 14
  top: int = 10

  @property
  def inner_width(self) -> int:
    """Width of the plot area, in pixels."""
    return self.width - self.left - self.right

  @property
  def inner_height(self) -> int:
    """Height of the plot area, in pixels."""
    return self.height - self.top - self.bottom

  def x_pixels(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the pixels of x values; NaN for values that are not finite."""
    return self.left + self.inner_width * self.x.places(values)

  def y_pixels(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the pixels of y values, clipped to the plot area."""
    places = np.clip(self.y.places(values), 0, 1)
    return self.top + self.inner_height * (1 - places)

  def axes(self, *, has_grid: bool = True) -> list[Shape]:
    """Returns the grid, the labels of the ticks, and the x axis's label."""
    right, floor = self.width - self.right, self.height - self.bottom
    parts: list[Shape] = []
    heights = self.y_pixels(self.y.ticks)
    for place, label in zip(heights, self.y.labels, strict=True):
      if has_grid:
        parts.append(Path(f"M{self.left} {place:.1f}H{right}", "grid"))
      parts.append(Text(label, self.left - 7, place + 4, "end"))
    places = self.x_pixels(self.x.ticks)
    for place, label in zip(places, self.x.labels, strict=True):
      parts.append(Path(f"M{place:.1f} {floor}v4", "axis"))
      parts.append(Text(label, place, floor + 17, "middle"))
    parts.append(Path(f"M{self.left} {floor}H{right}", "axis"))
    if self.x_label:
      x, y = self.left + self.inner_width / 2, self.height - 6
      parts.append(Text(self.x_label, x, y, "middle", "label"))
    return parts

  def vertical_grid(self) -> str:
    """Returns the path of vertical lines at the ticks of x."""
    floor = self.height - self.bottom
    return "".join(
      f"M{at:.1f} {self.top}V{floor}" for at in self.x_pixels(self.x.ticks)
    )

  def drawing(
    self,
    identifier: str,
    title: str,
    description: str,
    parts: Iterable[Shape],
    class_: str = "",
  ) -> Chart:
    """Returns a chart of `parts` with the frame's size, which CSS may scale."""
    size = self.width, self.height
    return Chart(identifier, title, description, [*parts], *size, class_)


ABOVE_AND_BELOW = Frame.top + Frame.bottom  # The heights of the usual margins.
_PER_PIXEL = 10  # Coordinates are rounded to a tenth of a pixel.


def line_path(x: np.ndarray, y: np.ndarray) -> str:
  """Returns a path through points, with gaps at NaN."""
  return "".join(
    _polyline(x[part], y[part]) + "h0" * (len(x[part]) == 1)
    for part in _finite_slices(x, y)
  )


def band_path(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
  """Returns the path of the area between two lines, with gaps at NaN."""
  return "".join(
    _polyline(
      np.concatenate([x[part], x[part][::-1]]),
      np.concatenate([low[part], high[part][::-1]]),
    )
    for part in _finite_slices(x, low + high)
    if part.stop - part.start > 1
  )


def box_path(x: float, y: float, width: float, height: float) -> str:
  """Returns the path of a rectangle with the top left corner x, y."""
  left, top, wide, tall, back = (
    _text(round(_PER_PIXEL * value)) for value in (x, y, width, height, -width)
  )
  return f"M{left} {top}h{wide}v{tall}h{back}z"


def _finite_slices(*arrays: np.ndarray) -> list[slice]:
  """Returns the maximal slices in which all values are finite."""
  is_missing = ~np.all(np.isfinite(arrays), axis=0)
  if not is_missing.size:
    return []
  return np.ma.clump_unmasked(np.ma.array(is_missing, mask=is_missing))


def _polyline(x: np.ndarray, y: np.ndarray) -> str:
  points = np.rint(_PER_PIXEL * np.stack([x, y])).astype(int)
  # Round before taking differences, so that rounding errors do not add up.
  steps = np.diff(points).T.tolist()
  start = f"M{_text(points[0, 0])} {_text(points[1, 0])}"
  if not steps:
    return start
  return f"{start}l" + " ".join(f"{_text(a)} {_text(b)}" for a, b in steps)


def _text(tenths: int) -> str:
  text = f"{tenths / _PER_PIXEL:g}"
  return text.replace("0.", ".", 1) if abs(tenths) < _PER_PIXEL else text
