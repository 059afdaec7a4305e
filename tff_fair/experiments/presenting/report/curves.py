"""Curves of values over rounds or costs, averaged over seeds."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import number_text
from tff_fair.experiments.presenting.report import scale
from tff_fair.experiments.presenting.report.line_chart import Line
from tff_fair.experiments.presenting.report.scale import Scale
from tff_fair.experiments.presenting.report.task_runs import Method
from tff_fair.experiments.runs.run import ROUND, Run


class Curve(NamedTuple):
  """A value over the rounds that all of a method's runs have evaluated."""

  rounds: np.ndarray
  mean: np.ndarray
  std: np.ndarray | None


def over_seeds(
  method: Method, table_of: Callable[[Run], pd.DataFrame], column: str
) -> Curve | None:
  """Returns a column's mean over seeds by round; None if a run lacks it."""
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
  """Returns the cumulative cost by round; None if a run has not counted it."""

  def table_of(run: Run) -> pd.DataFrame:
    if run.costs is None or not set(columns) <= set(run.costs):
      return pd.DataFrame()
    costs = run.costs.sort_values(ROUND)
    numbers = costs[list(columns)].apply(pd.to_numeric, errors="coerce")
    total = numbers.sum(axis="columns", skipna=False)
    return pd.DataFrame({ROUND: costs[ROUND], "total": total.cumsum()})

  return over_seeds(method, table_of, "total")


def costs_by_round(curve: Curve, costs: Curve) -> np.ndarray:
  """Returns the cumulative cost at a curve's rounds, float[n], or NaN."""
  known = pd.Series(costs.mean, index=costs.rounds)
  if 0 not in known.index:
    known.loc[0] = 0.0
  return known.reindex(curve.rounds).to_numpy(np.float64)


def windows(curve: Curve, limit: int) -> tuple[Curve, int]:
  """Returns means over at most `limit` windows of rounds, and their length."""
  length = -(-len(curve.rounds) // limit)
  table = pd.DataFrame({"round": curve.rounds, "mean": curve.mean})
  of_windows = table.groupby(np.arange(len(table)) // length)
  means = of_windows["mean"].mean().to_numpy()  # It ignores NaN.
  return Curve(of_windows["round"].last().to_numpy(), means, None), length


def line(
  method: Method, curve: Curve, costs: Curve | None = None, *, factor: float = 1
) -> Line:
  """Returns the line of a method's curve, over rounds or over costs."""
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
  """Returns a scale for all finite values of lines and bands."""
  low, high = _range_of([line.y for line in lines])
  if not is_percent and (wide := scale.logarithmic(low, high)) is not None:
    return wide  # It ignores bands: they may reach 0, which has no logarithm.
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
