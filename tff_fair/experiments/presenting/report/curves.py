"""Curves over rounds or costs: means over seeds, and charts of lines."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import number_text
from tff_fair.experiments.presenting.report import scale
from tff_fair.experiments.presenting.report.frame import (
  Chart,
  Frame,
  Group,
  Path,
  band_path,
  line_path,
)
from tff_fair.experiments.presenting.report.scale import Scale
from tff_fair.experiments.presenting.report.task_runs import Method, Style
from tff_fair.experiments.runs.run import ROUND, Run

_MAX_POINTS = 120  # More points would look the same on a chart of this size.
_MAX_MARKERS = 6
_MANY = 12  # The most lines that readers can distinguish.


class Curve(NamedTuple):
  """Mean and std over a method's runs, in the rounds that all runs contain."""

  rounds: np.ndarray
  mean: np.ndarray
  std: np.ndarray | None


def over_seeds(
  method: Method, table_of: Callable[[Run], pd.DataFrame], column: str
) -> Curve | None:
  """Returns the mean and std over seeds of `column` in the runs' tables.

  Returns None if a run lacks the column, or all means are NaN.
  """
  series = []
  for run in method.runs:
    table = table_of(run)
    if column not in table:
      return None
    values = pd.to_numeric(table[column], errors="coerce")
    series.append(pd.Series(values.to_numpy(), index=table[ROUND].to_numpy()))
  common = pd.concat(series, axis="columns", join="inner").sort_index()
  values = common.to_numpy(np.float64)
  with np.errstate(invalid="ignore"):  # Values may be infinite.
    mean = values.mean(axis=1)
    std = values.std(axis=1, ddof=1) if len(series) > 1 else None
  if np.isnan(mean).all():
    return None
  return Curve(common.index.to_numpy(), mean, std)


def cumulative_cost(method: Method, columns: tuple[str, ...]) -> Curve | None:
  """Returns the running sum of cost `columns`; None if a run lacks a column."""

  def table_of(run: Run) -> pd.DataFrame:
    if run.costs is None or not set(columns) <= set(run.costs):
      return pd.DataFrame()
    costs = run.costs.sort_values(ROUND)
    numbers = costs[list(columns)].apply(pd.to_numeric, errors="coerce")
    total = numbers.sum(axis="columns", skipna=False)
    return pd.DataFrame({ROUND: costs[ROUND], "total": total.cumsum()})

  return over_seeds(method, table_of, "total")


def costs_by_round(curve: Curve, costs: Curve) -> np.ndarray:
  """Returns the costs at each of a curve's rounds; NaN if unknown."""
  known = pd.Series(costs.mean, index=costs.rounds)
  if 0 not in known.index:
    known.loc[0] = 0.0
  return known.reindex(curve.rounds).to_numpy(np.float64)


def windows(curve: Curve, limit: int) -> tuple[Curve, int]:
  """Averages a curve in at most `limit` windows; also returns their length."""
  length = -(-len(curve.rounds) // limit)
  table = pd.DataFrame({"round": curve.rounds, "mean": curve.mean})
  of_windows = table.groupby(np.arange(len(table)) // length)
  means = of_windows["mean"].mean().to_numpy()  # pandas ignores NaN.
  return Curve(of_windows["round"].last().to_numpy(), means, None), length


@dataclasses.dataclass(frozen=True)
class Line:
  """A line to draw; its spread is half the width of the band around it."""

  label: str
  style: Style
  x: np.ndarray
  y: np.ndarray
  spread: np.ndarray | None = None


def line(
  method: Method, curve: Curve, costs: Curve | None = None, *, factor: float = 1
) -> Line:
  """Returns a curve, scaled by `factor`, as a line over rounds or `costs`."""
  x = (
    curve.rounds.astype(float)
    if costs is None
    else costs_by_round(curve, costs)
  )
  known = np.isfinite(x)
  spread = None if curve.std is None else factor * curve.std[known]
  return Line(
    method.label, method.style, x[known], factor * curve.mean[known], spread
  )


def x_scale(lines: Sequence[Line], *, is_whole: bool) -> Scale:
  """Returns a scale from 0 to the end of the longest line."""
  last = max(float(line.x[-1]) for line in lines)
  return scale.linear(0, last, is_tight=True, is_whole=is_whole)


def y_scale(
  lines: Sequence[Line], *, is_percent: bool, least: float = 0
) -> Scale:
  """Returns a scale that covers the finite values of lines and their bands."""
  low, high = _range_of([line.y for line in lines])
  if not is_percent and (wide := scale.logarithmic(low, high)) is not None:
    return wide  # Ignores the bands: they may reach 0, which has no logarithm.
  bands = [
    line.y + sign * line.spread
    for line in lines
    if line.spread is not None
    for sign in (-1, 1)
  ]
  low, high = _range_of([*(line.y for line in lines), *bands])
  most = 100 if is_percent else math.inf
  return scale.linear(max(low, least), min(high, most), bounds=(least, most))


def describe_ends(lines: Sequence[Line], where: str, unit: str) -> str:
  """Returns a sentence with the last value of each line."""
  values = [
    f"{line.label} {number_text.grouped(line.y[-1], 2)}{unit}"
    if np.isfinite(line.y[-1])
    else f"{line.label} not finite"
    for line in lines
  ]
  return f"At {where}: {', '.join(values)}."


def _range_of(parts: Sequence[np.ndarray]) -> tuple[float, float]:
  values = np.concatenate(parts)
  values = values[np.isfinite(values)]
  return (values.min(), values.max()) if values.size else (0.0, 1.0)


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
  """Draws a chart of lines, with their bands and markers."""
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
  """Returns indices of up to `limit` points that preserve a curve's shape."""
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
  if frame.y.is_logarithmic:  # Move ends that have no logarithm to the edge.
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
  """Returns the indices of the points with markers, staggered between lines."""
  count = len(line.x)
  if count <= _MAX_MARKERS:
    return np.arange(count)
  # The golden ratio shifts each line's markers, so that few hide each other.
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
