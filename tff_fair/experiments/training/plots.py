"""Draws a run's plots: final scores over clients, and curves over rounds."""

import contextlib
import pathlib
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import RoundState

if typing.TYPE_CHECKING:
  from matplotlib.axes import Axes

_WORST_SHARE = 0.1
# Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
_MAIN, _WORST, _BEST = "#0072B2", "#D55E00", "#009E73"

# In inches: the size (width, height) of one plot of a figure, and its margins
# (left, right, bottom, top).
_SIZE = (4.5, 3.6)
_MARGINS = (0.75, 0.15, 0.55, 0.4)


def preload() -> None:
  """Imports matplotlib's modules; the first call takes half a second."""
  # Not pyplot, which would look for a display.
  from matplotlib import figure  # noqa: F401, PLC0415
  from matplotlib.backends import backend_agg  # noqa: F401, PLC0415


class PlotPreloader(Writer):
  """Imports matplotlib in a thread while the first rounds compute."""

  def write(self, state: RoundState) -> None:
    """Imports matplotlib's modules at the first call."""
    del state
    preload()


def draw_distribution(
  values: ArrayLike, path: pathlib.Path, score: Score = ACCURACY
) -> None:
  """Plots clients' scores: a histogram, and bars from worst to best."""
  shown = np.sort(score.scale * np.asarray(values, np.float64))
  shown = shown[np.isfinite(shown)]
  if not score.higher_is_better:
    shown = shown[::-1]
  num_worst = int(np.ceil(_WORST_SHARE * shown.size))
  limit = score.limit if np.isfinite(score.limit) else _limit(shown)
  first = min(0.0, float(shown.min(initial=0.0)))  # R² may be below 0.
  with _figure(path, num_columns=2) as (left, right):
    left.hist(shown, bins=20, range=(first, limit), color=_MAIN)
    for name, part, color in (
      ("mean", shown, "black"),
      ("worst 10 %", shown[:num_worst], _WORST),
    ):
      if part.size:
        label = f"{name} {part.mean():.{score.short_digits}f}"
        left.axvline(part.mean(), color=color, linestyle="--", label=label)
    left.set(
      title=f"{shown.size:,} clients",
      xlabel=f"test {score.noun}{score.in_brackets}",
      ylabel="clients",
      xlim=(first, limit),
    )
    left.locator_params("y", integer=True)

    edges = np.arange(shown.size + 1) - 0.5
    right.stairs(shown, edges, fill=True, color=_MAIN)
    right.stairs(
      shown[:num_worst],
      edges[: num_worst + 1],
      fill=True,
      color=_WORST,
      label="worst 10 %",
    )
    if shown.size:
      right.axhline(shown.mean(), color="black", linestyle="--", label="mean")
      left.legend()
    right.set(
      title="Clients from worst to best",
      xlabel=f"client, in order of {score.noun}",
      ylabel=f"test {score.noun}{score.in_brackets}",
      xlim=(edges[0], edges[-1]) if shown.size else None,
      ylim=(first, limit),
    )
    right.legend(loc="lower right" if score.higher_is_better else "upper right")


def _limit(shown: np.ndarray) -> float:
  largest = shown.max(initial=0.0)
  return 1.02 * float(largest) if largest > 0 else 1.0


def draw_curves(
  evaluations: pd.DataFrame, path: pathlib.Path, score: Score = ACCURACY
) -> None:
  """Plots a score, its spread and the loss over rounds."""
  rounds = evaluations["round"]
  shown = score.scale * evaluations.filter(like=f"{score.name}/")
  with _figure(path, num_columns=3) as (left, middle, right):

    def draw(axis: "Axes", values: pd.Series, label: str, color: str) -> None:
      axis.plot(rounds, values, label=label, color=color, marker=".")

    draw(left, shown[f"{score.name}/best_10"], "best 10 %", _BEST)
    draw(left, shown[f"{score.name}/mean"], "mean", _MAIN)
    draw(left, shown[f"{score.name}/worst_10"], "worst 10 %", _WORST)
    top = 1.02 * score.limit if np.isfinite(score.limit) else None
    bottom = None if score.lowest < 0 else 0
    left.set(title=f"Test {score.noun}{score.in_brackets}", ylim=(bottom, top))
    draw(middle, shown[f"{score.name}/std"], "standard deviation", _MAIN)
    points = " (points)" if score.sign else ""
    middle.set(
      title=f"Spread of {score.noun} over clients{points}", ylim=(0, None)
    )
    draw(right, evaluations["loss/max"], "worst client", _WORST)
    draw(right, evaluations["loss/mean"], "mean", _MAIN)
    is_negative = (evaluations["loss/mean"] < 0).any()
    right.set(title="Test loss", ylim=(None if is_negative else 0, None))
    for axis in (left, middle, right):
      axis.set_xlabel("round")
      axis.legend()


@contextlib.contextmanager
def _figure(
  path: pathlib.Path, *, num_columns: int
) -> Iterator[Sequence["Axes"]]:
  """Yields axes side by side to draw on; then writes the figure."""
  # Imported here, as only runs that train need it; see `preload`.
  from matplotlib import figure  # noqa: PLC0415

  width, height = _SIZE
  left, right, bottom, top = _MARGINS
  drawing = figure.Figure(figsize=(width * num_columns, height))
  # An automatic layout measures labels, and would double the time.
  axes = drawing.subplots(
    1,
    num_columns,
    gridspec_kw={
      "left": left / (width * num_columns),
      "right": 1 - right / (width * num_columns),
      "bottom": bottom / height,
      "top": 1 - top / height,
      "wspace": (left + right) / (width - left - right),
    },
  )
  for axis in axes:
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
  yield axes
  drawing.savefig(path, dpi=150, format="png")
