"""Section: each client's score with each method, where clients are few."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Value
from tff_fair.experiments.reporting import (
  final_measures,
  html_tables,
  scale,
  scatter_chart,
  section,
)
from tff_fair.experiments.reporting import frame as frames
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.scale import Scale
from tff_fair.experiments.reporting.scatter_chart import Point
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.scores import ACCURACY
from tff_fair.metrics.intervals import Interval, wilson_interval

_TITLE = "Each client"
_MAX_CLIENTS = 39
_ONE_CHART = 6  # More clients are in two charts, side by side.
_LETTER_WIDTH, _GAP = 8.5, 14  # Letters are larger on a phone.
_LEAST_ROW, _DOT, _ABOVE_AND_BELOW = 36, 11, 52  # Heights.


def build(task: TaskRuns) -> Section:
  """Returns the section: the clients in charts, and a table."""
  scores = pd.DataFrame(
    {r.path: final_measures.scores_of_run(r) for r in task.runs}
  )
  if not 0 < len(scores) <= _MAX_CLIENTS:
    return Section(
      _TITLE, absence=f"it has room for 1 to {_MAX_CLIENTS} clients"
    )
  examples = pd.DataFrame({r.path: _examples(r) for r in task.runs})
  examples = examples.reindex(scores.index)
  if scores.isna().any(axis=None) or examples.isna().any(axis=None):
    return Section(_TITLE, absence="not all runs have the same clients")
  # The worst of the baseline first.
  first = scores[[run.path for run in task.methods[0].runs]].mean(axis=1)
  order = first.sort_values(
    kind="stable", ascending=task.score.higher_is_better
  ).index
  rows = [
    _Row(task, client, scores.loc[client], examples.loc[client])
    for client in order
  ]
  halves = np.array_split(
    np.arange(len(rows)), 1 if len(rows) <= _ONE_CHART else 2
  )
  x = _x(task, rows)
  return Section(
    _TITLE,
    [
      _note(task),
      section.charts([_chart(task, rows, half, x) for half in halves]),
      section.fold("Table of the clients", _table(task, rows), is_open=True),
    ],
  )


def _examples(run: Run) -> "pd.Series[int]":
  """Returns the numbers of test examples at the end of a run, by client."""
  return run.last_evaluation.set_index("client_id")["num_examples"]


class _Row:
  """A client.

  Attributes:
    client: Its id.
    least: How many test examples it has, with the seed that gives it the least.
    examples: How many it has, as text.
    values: Its score with each method over seeds, scaled for tables.
    intervals: Those of the values; None where there is none.
  """

  def __init__(
    self,
    task: TaskRuns,
    client: int,
    scores: "pd.Series[float]",
    examples: "pd.Series[int]",
  ) -> None:
    measure = task.measures["mean"]
    self.client = client
    self.least, most = int(examples.min()), int(examples.max())
    self.examples = f"{self.least:,}"
    if most > self.least:
      self.examples += f"–{most:,}"
    self.values: list[Value] = []
    self.intervals: list[Interval | None] = []
    for method in task.methods:
      of_seeds = [scores[run.path] for run in method.runs]
      value = measures.over_seeds(measure, of_seeds)
      interval = final_measures.interval(method, measure, value)
      if len(of_seeds) == 1 and task.score.name == ACCURACY.name:
        low, high = wilson_interval(of_seeds, [examples[method.runs[0].path]])
        interval = Interval(100 * float(low[0]), 100 * float(high[0]))
      self.values.append(value)
      self.intervals.append(interval)


def _note(task: TaskRuns) -> Markup:
  seeds = {len(method.runs) > 1 for method in task.methods}
  intervals = final_measures.INTERVALS
  parts = [
    f"Test {task.score.noun} at the end of the runs. The client with the "
    f"{task.score.worst_noun} under {task.methods[0].label} is on top."
  ]
  if True in seeds:
    parts.append(f"Lines are {intervals} over seeds.")
  if False in seeds and task.score.name == ACCURACY.name:
    parts.append(
      f"With one seed, lines are Wilson’s {intervals} over the test examples "
      "of the client."
    )
  return section.note(" ".join(parts))


def _x(task: TaskRuns, rows: Sequence[_Row]) -> Scale:
  ends = [
    end
    for row in rows
    for value, interval in zip(row.values, row.intervals, strict=True)
    for end in interval or (value.mean,)
  ]
  known = [end for end in ends if np.isfinite(end)] or [0.0]
  return scale.linear(
    min(known), max(known), bounds=(task.score.lowest, task.score.limit)
  )


def _chart(
  task: TaskRuns, rows: Sequence[_Row], places: np.ndarray, x: Scale
) -> Markup:
  """Returns some of the clients, one below the other."""
  score = task.score
  shown = [rows[place] for place in places]
  names = [task.clients.short(row.client) for row in shown]
  height = max(_LEAST_ROW, _DOT * (len(task.methods) + 1))
  letters = max(map(len, [*names, "99,999 examples"]))
  frame = Frame(
    x,
    Scale(len(shown) - 0.5, -0.5, ()),
    x_label=f"{score.noun}{score.in_brackets}",
    height=height * len(shown) + _ABOVE_AND_BELOW,
    left=round(_LETTER_WIDTH * letters) + _GAP,
  )
  which = "Each client"
  if len(shown) < len(rows):
    which = f"Clients {places[0] + 1} to {places[-1] + 1} of {len(rows)}"
  drawing = frame.drawing(
    f"{task.identifier}-clients-{places[0]}",
    f"{score.title} of each client",
    "; ".join(
      f"{task.clients.full(row.client)}: "
      + ", ".join(
        f"{method.label} {_text(task, value)}"
        for method, value in zip(task.methods, row.values, strict=True)
      )
      for row in shown
    ),
    frame.axes(),
    element("path", d=_grid(frame, len(shown)), class_="grid"),
    [
      _row(task, row, name, place, frame)
      for place, (row, name) in enumerate(zip(shown, names, strict=True))
    ],
  )
  return section.figure(drawing, f"{which}: {score.noun}{score.in_brackets}")


def _grid(frame: Frame, num_rows: int) -> str:
  """Returns a line up at each number, and one between two clients."""
  floor, right = frame.height - frame.bottom, frame.width - frame.right
  upright = [
    f"M{at:.1f} {frame.top}V{floor}" for at in frame.x_pixels(frame.x.ticks)
  ]
  across = [
    f"M0 {at:.1f}H{right}"
    for at in frame.y_pixels(np.arange(num_rows - 1) + 0.5)
  ]
  return "".join([*upright, *across])


def _row(
  task: TaskRuns, row: _Row, name: str, place: int, frame: Frame
) -> list[Markup]:
  middle = float(frame.y_pixels([place])[0])
  # Where the methods are, one below the other, in parts of a row.
  step = _DOT * (frame.y.low - frame.y.high) / frame.inner_height
  points = [
    Point(
      f"{task.clients.full(row.client)}, {method.label}",
      method.number,
      method.style,
      value.mean,
      place + step * (number - (len(task.methods) - 1) / 2),
      _text(task, value),
      interval,
    )
    for number, (method, value, interval) in enumerate(
      zip(task.methods, row.values, row.intervals, strict=True)
    )
    if np.isfinite(value.mean)
  ]
  noun = "example" if row.examples == "1" else "examples"
  left = frame.left - _GAP / 2
  return [
    frames.text(name, left, middle - 2, "end", "name"),
    frames.text(f"{row.examples} {noun}", left, middle + 13, "end"),
    *(scatter_chart.draw_point(point, frame) for point in points),
  ]


def _text(task: TaskRuns, value: Value) -> str:
  mean = final_measures.mean_text(task.measures["mean"], value)
  return f"{mean}{task.score.sign}"


def _table(task: TaskRuns, rows: Sequence[_Row]) -> Markup:
  measure = task.measures["mean"]
  first = html_tables.first_order(measure)
  columns = [
    html_tables.column(measure, [row.values[place] for row in rows]).cells
    for place in range(len(task.methods))
  ]
  return html_tables.sortable(
    f"Test {task.score.noun} of each client{task.score.in_brackets}",
    "Client",
    [
      ("Test examples", "descending"),
      *((method.label, first) for method in task.methods),
    ],
    [
      [
        html_tables.name_cell(task.clients.full(row.client)),
        html_tables.cell(row.least, row.examples),
        *cells,
      ]
      for row, *cells in zip(rows, *columns, strict=True)
    ],
  )
