"""Plots of a run: how accuracy is spread over clients, and how it got there."""

import contextlib
import pathlib
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

if typing.TYPE_CHECKING:
  from matplotlib.axes import Axes

_WORST_SHARE = 0.1
# Colours that remain apart for the colour-blind (Okabe and Ito, 2008).
_MAIN, _WORST, _BEST, _QUIET = "#0072B2", "#D55E00", "#009E73", "#767676"


def prepare() -> None:
  """Imports what drawing needs; it takes half a second, at the first call."""
  # No pyplot: it would look for a display.
  from matplotlib import figure  # noqa: F401, PLC0415
  from matplotlib.backends import backend_agg  # noqa: F401, PLC0415


def draw_distribution(accuracies: ArrayLike, path: pathlib.Path) -> None:
  """Draws accuracy over clients: a histogram, and all clients in order.

  Args:
    accuracies: float[K] in [0, 1].
    path: The PNG file to write.
  """
  percent = np.sort(100 * np.asarray(accuracies, np.float64))
  num_worst = int(np.ceil(_WORST_SHARE * percent.size))
  mean, worst = percent.mean(), percent[:num_worst].mean()
  with _figure(path, num_columns=2) as (left, right):
    left.hist(percent, bins=20, range=(0, 100), color=_MAIN)
    left.axvline(mean, color="black", linestyle="--", label=f"mean {mean:.1f}")
    left.axvline(
      worst, color=_WORST, linestyle="--", label=f"worst 10 % {worst:.1f}"
    )
    left.set(
      title=f"{percent.size:,} clients",
      xlabel="test accuracy (%)",
      ylabel="clients",
      xlim=(0, 100),
    )
    left.locator_params("y", integer=True)
    left.legend()

    edges = np.arange(percent.size + 1) - 0.5
    right.stairs(percent, edges, fill=True, color=_MAIN)
    right.stairs(
      percent[:num_worst],
      edges[: num_worst + 1],
      fill=True,
      color=_WORST,
      label="worst 10 %",
    )
    right.axhline(mean, color="black", linestyle="--", label="mean")
    right.set(
      title="Clients from worst to best",
      xlabel="client, in order of accuracy",
      ylabel="test accuracy (%)",
      xlim=(edges[0], edges[-1]),
      ylim=(0, 100),
    )
    right.legend(loc="lower right")


def draw_curves(evaluations: pd.DataFrame, path: pathlib.Path) -> None:
  """Draws accuracy, its spread and loss over rounds.

  Args:
    evaluations: The table of evaluations, one row each.
    path: The PNG file to write.
  """
  rounds = evaluations["round"]
  percent = 100 * evaluations.filter(like="accuracy/")
  with _figure(path, num_columns=3) as (left, middle, right):

    def draw(axis: "Axes", values: pd.Series, label: str, color: str) -> None:
      axis.plot(rounds, values, label=label, color=color, marker=".")

    draw(left, percent["accuracy/best_10"], "best 10 %", _BEST)
    draw(left, percent["accuracy/mean"], "mean", _MAIN)
    draw(left, percent["accuracy/worst_10"], "worst 10 %", _WORST)
    left.set(title="Test accuracy (%)", ylim=(0, 102))
    draw(middle, percent["accuracy/std"], "standard deviation", _MAIN)
    middle.set(title="Spread of accuracy over clients (points)", ylim=(0, None))
    draw(right, evaluations["loss/max"], "worst client", _WORST)
    draw(right, evaluations["loss/mean"], "mean", _MAIN)
    right.set(title="Test loss", ylim=(0, None))
    for axis in (left, middle, right):
      axis.set_xlabel("round")
      axis.legend()


@contextlib.contextmanager
def _figure(
  path: pathlib.Path, *, num_columns: int
) -> Iterator[Sequence["Axes"]]:
  """Yields axes side by side; then writes the figure."""
  # Imported late, see `prepare`: only runs that train need it.
  from matplotlib import figure  # noqa: PLC0415

  drawing = figure.Figure(
    figsize=(4.5 * num_columns, 3.6), layout="constrained"
  )
  axes = drawing.subplots(1, num_columns)
  for axis in axes:
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
  yield axes
  drawing.savefig(path, dpi=150, format="png")
