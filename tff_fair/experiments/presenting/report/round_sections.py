"""Sections on values by round, and on replays of recorded rounds.

The values are the length of the direction, the share of improved clients, the
distance from Pareto stationarity, and the losses of two clients.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import certificates, replay
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report import (
  curves,
  html_tables,
  scale,
  section,
)
from tff_fair.experiments.presenting.report.curves import Line
from tff_fair.experiments.presenting.report.frame import Figure, Frame
from tff_fair.experiments.presenting.report.html_tables import Table
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs.run import ROUND, Run

# The charts of the direction and of two clients' losses follow Figures 4 and 3
# of Hamidi and Yang, "AdaFed: Fair Federated Learning via Adaptive Common
# Descent Direction"; by its Theorem 4.1, the larger loss falls faster.


class _Series(NamedTuple):
  """A value per round: its column in metrics.csv, and texts on the page."""

  title: str
  column: str
  identifier: str
  name: str
  note: str
  unit: str = " %"  # Empty if values are relative to the largest one.
  pronoun: str = "it"


_DIRECTION = _Series(
  title="Length of the direction",
  column="aggregator/direction_norm",
  identifier="direction",
  name="Length of the direction",
  note=(
    "‖dₜ‖, divided by its largest value in the run: methods have directions of "
    "different magnitudes."
  ),
  unit="",
)
_IMPROVED = _Series(
  title="Improved clients",
  column="improved_share",
  identifier="improved",
  name="Share of improved clients",
  note="ρₜ: the share of a round’s cohort whose training loss did not rise.",
  pronoun="them",
)
_STATIONARITY = _Series(
  title="Pareto stationarity",
  column=certificates.STATIONARITY_COLUMN,
  identifier="stationarity",
  name="Pareto stationarity",
  note=(
    "The least norm in the convex hull of a round’s updates, divided by their "
    "mean norm. At 0, no step helps one client without harm to another."
  ),
)
_MAX_WINDOWS = 50


def build_direction(task: TaskRuns) -> section.Section:
  """Returns the section on the length of each method's update direction."""
  return _over_rounds(
    task,
    _DIRECTION,
    [*filter(None, map(_direction_line, task.methods))],
    " Means over seeds." if task.has_seeds else "",
    f"their runs have no finite {_DIRECTION.column}",
  )


def build_shares(task: TaskRuns) -> list[section.Section]:
  """Returns the sections on improved clients and on Pareto stationarity."""
  return [_of_share(task, series) for series in (_IMPROVED, _STATIONARITY)]


def _of_share(task: TaskRuns, series: _Series) -> section.Section:
  lines, longest = [], 1
  for method in task.methods:
    curve = curves.over_seeds(method, lambda run: run.rounds, series.column)
    if curve is not None:
      # Windows have no bands, which would cover each other.
      curve, length = curves.windows(curve, _MAX_WINDOWS)
      lines.append(curves.line(method, curve, factor=100))
      longest = max(longest, length)
  note = " Mean over seeds." if task.has_seeds else ""
  if longest > 1:
    note += f" Each point is the mean of up to {longest} rounds."
  reason = f"their runs have no {series.column} in metrics.csv"
  return _over_rounds(task, series, lines, note, reason)


def _over_rounds(
  task: TaskRuns, series: _Series, lines: Sequence[Line], note: str, reason: str
) -> section.Section:
  if not lines:
    where = f"{series.column} in metrics.csv"
    absence = f"no run has measured {series.pronoun} ({where})"
    return section.Section(series.title, absence=absence)
  if all(line.x.size == 1 for line in lines):
    return section.Section(series.title, absence="there is only one round")
  if series.unit:
    y, decimals = curves.y_scale(lines, is_percent=True), 2
    where, caption = "the last rounds", f"{series.title} (%)"
  else:
    y, decimals = scale.linear(0, 1), 3
    where, caption = "the end", "Length, relative"
  chart = curves.draw(
    lines,
    Frame(curves.x_scale(lines, is_whole=True), y, x_label="round"),
    identifier=f"{task.identifier}-{series.identifier}",
    title=f"{series.name} over rounds",
    description=curves.describe_ends(lines, where, series.unit),
    y_unit=series.unit,
    decimals=decimals,
  )
  return section.build(
    series.title,
    "charts",
    task,
    note=f"{series.note}{note}",
    figures=[Figure(chart, caption)],
    shown={line.style.number for line in lines},
    reason=reason,
  )


def _direction_line(method: Method) -> Line | None:
  """Returns a method's lengths relative to the largest; None if all are 0."""
  curve = curves.over_seeds(method, lambda run: run.rounds, _DIRECTION.column)
  if curve is None:
    return None
  known = np.isfinite(curve.mean)
  largest = curve.mean[known].max(initial=0.0)
  if not largest > 0:
    return None
  measured = curves.Curve(curve.rounds[known], curve.mean[known], None)
  return curves.line(method, measured, factor=1 / largest)


def build_replay(task: TaskRuns) -> section.Section:
  """Returns the section on replays; it is empty if no run was replayed."""
  found: list[str | Table] = []
  for run in task.runs:
    try:
      replays = run.replays
    except RunError as error:
      found.append(f"A replay is left out, because it is damaged: {error}")
      continue
    if replays is not None and len(replays):
      compared = replay.compare_replays(replays)
      caption = f"Rules on the rounds of {run.path.name}"
      found.append(html_tables.of_text(caption, replay.cells(compared)))
  title = "Rules on the same rounds"
  if not found:
    return section.Section(title)
  return section.build(title, "replay", task, found=found)


_LOSS_TITLE = "Losses of two clients"
# Columns of cohorts.csv; the first one that has losses is shown.
_LOSS_COLUMNS = ("loss_before", "loss")
_LOSS_DASHES = (None, "4 3")


class Losses(NamedTuple):
  """The losses of a client in the rounds in which it took part, in order."""

  client: int
  by_round: "pd.Series[float]"


def build_losses(task: TaskRuns) -> section.Section:
  """Returns the section: two clients' losses in one run of each method."""
  lines = {
    method: found
    for method in task.methods
    if (found := _loss_lines(task, method))
  }
  if not lines:
    absence = (
      "no two clients of the first round have losses in a later one "
      "(loss_before or loss in cohorts.csv)"
    )
    return section.Section(_LOSS_TITLE, absence=absence)
  everything = [line for of_method in lines.values() for line in of_method]
  frame = Frame(
    curves.x_scale(everything, is_whole=True),
    curves.y_scale(everything, is_percent=False),
    x_label="round",
    width=260,
    height=170,
    left=40,
  )
  return section.build(
    _LOSS_TITLE,
    "losses",
    task,
    figures=[
      _loss_figure(task, method, of_method, frame)
      for method, of_method in lines.items()
    ],
    shown={method.number for method in lines},
  )


def extremes(run: Run) -> tuple[Losses, Losses] | None:
  """Returns losses of the clients with the largest and least loss in round 1.

  The largest comes first. None unless two clients also have later losses.
  """
  table = pd.DataFrame() if run.cohorts is None else run.cohorts
  of_columns = (
    pd.to_numeric(table[name], errors="coerce")
    for name in _LOSS_COLUMNS
    if name in table
  )
  losses = next((found for found in of_columns if found.notna().any()), None)
  if losses is None:
    return None
  table = table[[ROUND, "client_id"]].assign(loss=losses)
  table = table[losses.abs() < float("inf")].sort_values([ROUND, "client_id"])
  counts = table["client_id"].value_counts()
  of_clients = table.set_index("client_id")
  starts = of_clients["loss"][of_clients[ROUND] == 1]
  starts = starts[starts.index.map(counts) > 1]
  if len(starts) < 2:
    return None
  high, low = (
    Losses(int(client), of_clients.loc[client].set_index(ROUND)["loss"])
    for client in (starts.drop(starts.idxmin()).idxmax(), starts.idxmin())
  )
  return high, low


def _loss_lines(task: TaskRuns, method: Method) -> list[Line]:
  """Returns the lines of two clients in the first run with losses, if any."""
  found = next(filter(None, map(extremes, method.runs)), ())
  return [
    Line(
      task.clients.full(losses.client),
      dataclasses.replace(method.style, dashes=dashes),
      losses.by_round.index.to_numpy(float),
      losses.by_round.to_numpy(float),
    )
    for losses, dashes in zip(found, _LOSS_DASHES, strict=False)
  ]


def _loss_figure(
  task: TaskRuns, method: Method, lines: Sequence[Line], frame: Frame
) -> Figure:
  arrow = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}"
  ends = "; ".join(
    f"{line.label}: {number_text.grouped(line.y[0], 2)}{arrow}"
    f"{number_text.grouped(line.y[-1], 2)}"
    for line in lines
  )
  chart = curves.draw(
    lines,
    frame,
    identifier=f"{task.identifier}-losses-{method.number}",
    title=f"Losses of two clients, {method.label}",
    description=f"From the first round to the last: {ends}.",
    decimals=4,
  )
  return Figure(chart, method.label, ends, f"m{method.number}")
