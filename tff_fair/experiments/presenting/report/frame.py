"""The frame of a chart, its axes, grid and names; and paths in it."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tff_fair.experiments.presenting.report import markup
from tff_fair.experiments.presenting.report.markup import Child, Markup, element
from tff_fair.experiments.presenting.report.scale import Scale


@dataclasses.dataclass(frozen=True)
class Frame:
  """The rectangle of a chart; sizes are in pixels of the SVG.

  Attributes:
    x: Scale from left to right.
    y: Scale from bottom to top.
    x_label: Name of x, with its unit.
    width: Of the whole chart.
    height: Of the whole chart.
    left: Margin for the numbers of y.
    bottom: Margin for the numbers and the label of x.
    right: Margin.
    top: Margin.
  """

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
    """Width of the rectangle."""
    return self.width - self.left - self.right

  @property
  def inner_height(self) -> int:
    """Height of the rectangle."""
    return self.height - self.top - self.bottom

  def x_pixels(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns where values of x are; NaN where they have no place."""
    return self.left + self.inner_width * self.x.places(values)

  def y_pixels(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns where values of y are; outside the frame, its edge."""
    places = np.clip(self.y.places(values), 0, 1)
    return self.top + self.inner_height * (1 - places)

  def axes(self, *, has_grid: bool = True) -> Markup:
    """Returns grid, ticks, numbers and the label of x."""
    right, floor = self.width - self.right, self.height - self.bottom
    parts = []
    for place, label in zip(
      self.y_pixels(self.y.ticks), self.y.labels, strict=True
    ):
      if has_grid:
        parts.append(_path(f"M{self.left} {place:.1f}H{right}", "grid"))
      parts.append(text(label, self.left - 7, place + 4, "end"))
    for place, label in zip(
      self.x_pixels(self.x.ticks), self.x.labels, strict=True
    ):
      parts.append(_path(f"M{place:.1f} {floor}v4", "axis"))
      parts.append(text(label, place, floor + 17, "middle"))
    parts.append(_path(f"M{self.left} {floor}H{right}", "axis"))
    if self.x_label:
      middle = self.left + self.inner_width / 2
      parts.append(
        text(self.x_label, middle, self.height - 6, "middle", "label")
      )
    return markup.joined(parts)

  def uprights(self) -> str:
    """Returns the path of a line from bottom to top at each tick of x."""
    floor = self.height - self.bottom
    return "".join(
      f"M{at:.1f} {self.top}V{floor}" for at in self.x_pixels(self.x.ticks)
    )

  def drawing(
    self,
    identifier: str,
    title: str,
    description: str,
    *children: Child,
    class_: str | None = None,
  ) -> Markup:
    """Returns a chart of this size; it scales with the room on the page."""
    return element(
      "svg",
      element("title", title, id=f"{identifier}-title"),
      element("desc", description, id=f"{identifier}-text"),
      *children,
      viewBox=f"0 0 {self.width} {self.height}",
      width=self.width,
      height=self.height,
      id=identifier,
      role="img",
      aria_labelledby=f"{identifier}-title {identifier}-text",
      class_=class_,
    )


def text(
  words: str, x: float, y: float, anchor: str, class_: str | None = None
) -> Markup:
  """Returns text in a chart."""
  return element(
    "text",
    words,
    x=f"{x:.1f}",
    y=f"{y:.1f}",
    text_anchor=None if anchor == "start" else anchor,
    class_=class_,
  )


def _path(path: str, class_: str) -> Markup:
  return element("path", d=path, class_=class_)


# Lines and areas as paths of SVG, to a tenth of a pixel.


_PER_PIXEL = 10


def line_path(x: np.ndarray, y: np.ndarray) -> str:
  """Returns a path through points; it is interrupted where one is NaN.

  Args:
    x: float[n], in pixels.
    y: float[n], in pixels.

  Returns:
    The path; a point on its own becomes a line without length, which shows as a
    dot where line caps are round.
  """
  return "".join(
    f"{_through(x[part], y[part])}{'h0' if part.stop - part.start == 1 else ''}"
    for part in _present(x, y)
  )


def band_path(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
  """Returns the area between two lines; it is interrupted where one is NaN.

  The path is open on its left: as an edge, it begins where its lines begin.

  Args:
    x: float[n], in pixels.
    low: float[n], in pixels.
    high: float[n], in pixels.
  """
  return "".join(
    _through(
      np.concatenate([x[part], x[part][::-1]]),
      np.concatenate([low[part], high[part][::-1]]),
    )
    for part in _present(x, low + high)
    if part.stop - part.start > 1
  )


def box_path(x: float, y: float, width: float, height: float) -> str:
  """Returns a rectangle; x, y is its corner at the top left."""
  left, top, wide, tall, back = (
    _text(round(_PER_PIXEL * value)) for value in (x, y, width, height, -width)
  )
  return f"M{left} {top}h{wide}v{tall}h{back}z"


def _present(*arrays: np.ndarray) -> Iterator[slice]:
  """Yields the longest stretches without NaN."""
  present = np.all(np.isfinite(arrays), axis=0)
  place = 0
  for is_present, members in itertools.groupby(present):
    length = len(list(members))
    if is_present:
      yield slice(place, place + length)
    place += length


def _through(x: np.ndarray, y: np.ndarray) -> str:
  points = np.rint(_PER_PIXEL * np.stack([x, y])).astype(int)
  # Differences of rounded places: rounding errors do not add up.
  steps = np.diff(points).T.tolist()
  start = f"M{_text(points[0, 0])} {_text(points[1, 0])}"
  if not steps:
    return start
  return f"{start}l" + " ".join(f"{_text(a)} {_text(b)}" for a, b in steps)


def _text(tenths: int) -> str:
  text = f"{tenths / _PER_PIXEL:g}"
  return text.replace("0.", ".", 1) if abs(tenths) < _PER_PIXEL else text
