"""A small histogram for each method: clients by accuracy."""

from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.reporting import shapes
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import Method

_NUM_BINS = 20


def shares(accuracies: Sequence[np.ndarray]) -> np.ndarray:
  """Returns the share of clients in each of 20 equal bins.

  Args:
    accuracies: For each seed, float[K] in [0, 1].

  Returns:
    float[20], in the mean over seeds; a value between two bins is in the upper.
  """
  # Accuracies are ratios in float32, and bins begin at round numbers: half a
  # millionth keeps 0.05 out of the bin below.
  return np.mean(
    [
      np.histogram(np.clip(a + 5e-7, 0, 1), _NUM_BINS, (0, 1))[0] / len(a)
      for a in accuracies
    ],
    axis=0,
  )


def draw(
  method: Method,
  bins: np.ndarray,
  mean: float,
  worst: float,
  frame: Frame,
  identifier: str,
) -> Markup:
  """Draws the histogram of a method.

  Args:
    method: The method.
    bins: As `shares` returns them.
    mean: Mean accuracy in percent.
    worst: Mean accuracy of the worst 10 % of the clients in percent.
    frame: Where it is drawn; both scales in percent.
    identifier: Unique on the page.
  """
  edges = frame.x_pixels(np.linspace(0, 100, _NUM_BINS + 1))
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(100 * bins)
  bars = "".join(
    shapes.box(left + 0.5, top, right - left - 1, floor - top)
    for left, right, top in zip(edges, edges[1:], tops, strict=False)
    if floor - top > 0
  )
  return frame.drawing(
    identifier,
    f"Accuracy over clients, {method.label}",
    f"Histogram in steps of 5 points; mean {mean:.1f} %, worst 10 % of the "
    f"clients {worst:.1f} %.",
    frame.axes(),
    element("path", d=bars, class_=f"bars c{method.style.color}"),
    [
      element(
        "path",
        element("title", f"{name} {value:.1f} %"),
        d=f"M{frame.x_pixels([value])[0]:.1f} {frame.top}V{floor:.1f}",
        class_=class_,
      )
      for name, value, class_ in (
        ("worst 10 %", worst, "worst-line"),
        ("mean", mean, "mean-line"),
      )
      if np.isfinite(value)
    ],
  )
