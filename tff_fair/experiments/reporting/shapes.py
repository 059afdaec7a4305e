"""Lines and areas as paths of SVG, to a tenth of a pixel."""

import itertools
from collections.abc import Iterator

import numpy as np

_PER_PIXEL = 10


def line(x: np.ndarray, y: np.ndarray) -> str:
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


def band(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
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


def box(x: float, y: float, width: float, height: float) -> str:
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
