"""A small histogram for each method: clients by their score."""

from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.reporting import shapes
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns
from tff_fair.experiments.scores import ACCURACY, Score

_NUM_BINS = 20


def steps(score: Score) -> str:
  """Returns how wide the bins are, in words."""
  if score.sign:
    return f"in steps of {score.limit / _NUM_BINS:g} points"
  return f"in {_NUM_BINS} equal steps"


def shares(scores: Sequence[np.ndarray], end: float = 1.0) -> np.ndarray:
  """Returns the share of clients in each of 20 equal bins.

  Args:
    scores: For each seed, float[K] in [0, end].
    end: Where the last bin ends.

  Returns:
    float[20], in the mean over seeds; a value between two bins is in the upper.
  """
  # Accuracies are ratios in float32, and bins begin at round numbers: half a
  # millionth keeps 0.05 out of the bin below.
  return np.mean(
    [
      np.histogram(np.clip(a / end + 5e-7, 0, 1), _NUM_BINS, (0, 1))[0] / len(a)
      for a in scores
    ],
    axis=0,
  )


def draw(
  method: MethodRuns,
  bins: np.ndarray,
  mean: float,
  worst: float,
  frame: Frame,
  identifier: str,
  score: Score = ACCURACY,
) -> Markup:
  """Draws the histogram of a method.

  Args:
    method: The method.
    bins: As `shares` returns them.
    mean: Mean score, scaled for tables.
    worst: That of the worst 10 % of the clients.
    frame: Where it is drawn: scaled scores, from 0 to the end of the last bin,
      and shares in percent.
    identifier: Unique on the page.
    score: The score.
  """

  def text(value: float) -> str:
    return f"{value:.{score.short_digits}f}{score.sign}"

  edges = frame.x_pixels(np.linspace(0, frame.x.high, _NUM_BINS + 1))
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(100 * bins)
  bars = "".join(
    shapes.box(left + 0.5, top, right - left - 1, floor - top)
    for left, right, top in zip(edges, edges[1:], tops, strict=False)
    if floor - top > 0
  )
  return frame.drawing(
    identifier,
    f"{score.title} over clients, {method.label}",
    f"Histogram {steps(score)}; mean {text(mean)}, worst 10 % of the "
    f"clients {text(worst)}.",
    frame.axes(),
    element("path", d=bars, class_=f"bars c{method.style.color}"),
    [
      element(
        "path",
        element("title", f"{name} {text(value)}"),
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
