"""Presents runs and their ceiling, the least losses that models can reach.

The formats are text, JSON, an HTML page and a section of reports.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from tff_fair.experiments.analysis import ceiling_records
from tff_fair.experiments.analysis.ceiling import (
  LARGEST,
  MEAN,
  RISKS,
  TAIL,
  Ceilings,
)
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report import (
  html_tables,
  scale,
  scatter_chart,
  section,
  task_runs,
)
from tff_fair.experiments.presenting.report.frame import (
  Figure,
  Frame,
  Path,
  line_path,
)
from tff_fair.experiments.presenting.report.scatter_chart import Point
from tff_fair.experiments.presenting.report.task_runs import Style
from tff_fair.experiments.texts import layout
from tff_fair.files import parsing

if typing.TYPE_CHECKING:
  import pandas as pd

_TOUCHES = (
  "The model touches the ball |W| <= {radius:g} ({risks}): with larger weights "
  "the loss may fall further, for example if the data is separable."
)
_TRAINING = (
  "The ceiling is for training data; test losses are shown, too. Each loss is "
  "the plain one, whatever a run trained on: {unit}."
)
_UNITS = {"squared": "mean squared errors, in the task's units of the label"}


def text(found: Ceilings) -> str:
  """Returns the ceiling and the runs as text for a terminal."""
  parts = []
  for title, tables in _by_title(found).items():
    parts += [title, *map(layout.table, _tables(tables).values())]
    parts += [layout.wrap(line) for line in sentences(tables)]
  parts += [layout.wrap(note) for note in found.notes]
  return "\n\n".join(parts)


def json(found: Ceilings) -> str:
  """Returns the ceiling and the runs as JSON text."""
  content = {**ceiling_records.as_json(found), "notes": list(found.notes)}
  return parsing.json_text(content)


def page(found: Ceilings) -> str:
  """Returns an HTML page with charts that compare runs to the ceiling."""
  methods = list(dict.fromkeys(found.runs.get("method", ())))
  styles = {name: task_runs.style(k) for k, name in enumerate(methods)}
  return rendering.page(
    "ceiling.html",
    "The ceiling of fairness",
    num_methods=max(1, len(styles)),
    parts=parts(found, styles, "ceiling"),
    notes=found.notes,
  )


def build_section(task: task_runs.TaskRuns) -> section.Section:
  """Returns a report's section on the ceiling; empty if no run has one."""
  title = "The ceiling"
  found, notes = ceiling_records.read(
    Group(method.label, method.runs) for method in task.methods
  )
  if found is None:
    return section.Section(title, absence=" ".join(notes).rstrip("."))
  styles = {method.label: method.style for method in task.methods}
  drawn = parts(found, styles, f"{task.identifier}-ceiling")
  return section.build(title, "ceiling", task, parts=drawn, notes=notes)


def parts(
  found: Ceilings, styles: Mapping[str, Style], identifier: str
) -> list[dict[str, Any]]:
  """Returns the template values of `ceiling.html`, one dict per chart."""
  return [
    {
      "title": title,
      "sentences": sentences(tables),
      "tables": [
        html_tables.of_text(caption, lines)
        for caption, lines in _tables(tables).items()
      ],
      "figures": [_chart(tables, styles, f"{identifier}-{number}")],
      "legend": [
        (name, styles[name])
        for name in dict.fromkeys(tables.runs.get("method", ()))
      ],
    }
    for number, (title, tables) in enumerate(_by_title(found).items())
  ]


def _by_title(found: Ceilings) -> dict[str, Ceilings]:
  """Splits the tables by data set, loss and kind of model; keys are titles."""
  parts = {}
  is_deep = found.data["representation"] != ""
  for _, data in found.data.groupby(["title", "loss", is_deep], sort=False):
    first, numbers = data.iloc[0], data["data"]
    counts = [
      _range(data["num_clients"], "clients"),
      _range(data["num_examples"], "training examples"),
      _range(data["num_weights"], "weights"),
      f"{first['loss']} loss",
    ]
    if len(data) > 1:
      sets = "representations" if first["representation"] else "data seeds"
      counts.append(f"means over {len(data)} {sets}")
    title = f"{first['title']}: {', '.join(counts)}"
    parts[title] = dataclasses.replace(
      found,
      data=data,
      least=found.least[found.least["data"].isin(numbers)],
      runs=found.runs[found.runs["data"].isin(numbers)]
      if len(found.runs)
      else found.runs,
    )
  return parts


def _range(values: pd.Series, unit: str) -> str:
  low, high = values.min(), values.max()
  return f"{low:,} {unit}" if low == high else f"{low:,} to {high:,} {unit}"


def sentence(found: Ceilings) -> str:
  """Returns a sentence on how far a single run ends above the ceiling."""
  [run] = found.runs.to_dict("records")
  is_deep = found.data["representation"].iloc[0] != ""
  kind = "last layer on its features" if is_deep else "model of its kind"
  mean, tail, largest = (f"{run[f'excess_{risk}']:.3g}" for risk in RISKS)
  radius = float(found.data["radius"].iloc[0])
  return (
    f"On training data, its loss is above the least that any {kind} with "
    f"weights of norm up to {radius:g} can reach by {mean} in the mean over "
    f"clients, {tail} in the mean over the {found.names[TAIL]} of the clients "
    f"and {largest} at the client with the largest (in {found.unit})."
  )


def sentences(found: Ceilings) -> list[str]:
  """Returns sentences on the findings for one data set and kind of model."""
  names = found.names
  values = found.least.groupby("risk")["value"].mean()  # Mean over data sets.
  first = found.data.iloc[0]
  kind = (
    "No last layer on the features of these runs"
    if first["representation"]
    else "No model of this kind"
  )
  unit = "" if first["loss"] == "squared" else " nats"
  radius = float(found.data["radius"].max())
  lines = [
    f"{kind} with |W| <= {radius:g} is better than {values[TAIL]:.3g}{unit} "
    f"for the {names[TAIL]}, {values[LARGEST]:.3g} for the worst client and "
    f"{values[MEAN]:.3g} in the mean; the proof leaves a gap of "
    f"{found.least['gap'].max():.1g} at most."
  ]
  if len(found.runs):
    excess = found.runs.groupby("method", sort=False)["excess_tail"].mean()
    ends = [
      f"{method} {value:.3g}" for method, value in excess.sort_values().items()
    ]
    lines.append(
      f"Above the best possible {names[TAIL]} end, in{unit or ' its units'}: "
      f"{', '.join(ends)}."
    )
  touching = found.least[found.least["touches"]]["risk"].unique()
  if len(touching):
    risks = ", ".join(names.get(risk, risk) for risk in touching)
    lines.append(_TOUCHES.format(radius=radius, risks=risks))
  unit = _UNITS.get(first["loss"], "cross entropies, in nats")
  return [*lines, _TRAINING.format(unit=unit)]


def _tables(found: Ceilings) -> dict[str, list[list[str]]]:
  """Returns each table's rows of texts, the head first, by caption."""
  tables = {"The least losses": _ceiling_lines(found)}
  if len(found.runs):
    tables["Training losses"] = _method_lines(found)
  return tables


def _ceiling_lines(found: Ceilings) -> list[list[str]]:
  names = found.names
  heads = ["Least", "value", "gap at most", "|W|"]
  lines = [[*heads, *(f"its {names[name]}" for name in RISKS), "test"]]
  for risk in RISKS:
    rows = found.least[found.least["risk"] == risk]
    lines.append(
      [
        names[risk],
        _number(rows["value"]),
        f"{rows['gap'].max():.1g}",
        f"{rows['norm'].mean():.3g}",
        *(_number(rows[name]) for name in RISKS),
        _number(rows[f"test_{risk}"]),
      ]
    )
  return lines


def _method_lines(found: Ceilings) -> list[list[str]]:
  names = found.names
  heads = ["Method", "runs"]
  for risk in RISKS:
    heads += [names[risk], "above"]
  lines = [[*heads, f"test {names[TAIL]}"]]
  for method, rows in found.runs.groupby("method", sort=False):
    cells = [str(method), str(len(rows))]
    for risk in RISKS:
      cells += [_number(rows[risk]), _number(rows[f"excess_{risk}"])]
    lines.append([*cells, _number(rows["test_tail"])])
  return lines


def _number(values: pd.Series) -> str:
  return f"{values.mean():.4f}"


def _chart(
  found: Ceilings, styles: Mapping[str, Style], identifier: str
) -> Figure:
  """Charts mean against tail losses: ceilings as lines, runs as points."""
  names, unit = found.names, found.unit
  ends = found.least[found.least["risk"] != LARGEST]
  fronts = [rows.sort_values("s") for _, rows in ends.groupby("data")]
  points = [
    Point(
      f"{row['method']}, seed {row['seed']}",
      styles[row["method"]],
      row[MEAN],
      row[TAIL],
      f"mean {row[MEAN]:.4f}, {names[TAIL]} {row[TAIL]:.4f}",
    )
    for row in found.runs.to_dict("records")
    if np.isfinite([row[MEAN], row[TAIL]]).all()
  ]
  x = [*ends[MEAN], *(point.x for point in points)]
  y = [*ends[TAIL], *(point.y for point in points)]
  frame = Frame(
    scale.with_margins(min(x), max(x), bounds=(0, np.inf)),
    scale.with_margins(min(y), max(y), bounds=(0, np.inf)),
    x_label=f"mean loss ({unit})",
  )
  lines = [
    Path(
      line_path(
        frame.x_pixels(front[MEAN].to_numpy()),
        frame.y_pixels(front[TAIL].to_numpy()),
      ),
      "mean-line",
    )
    for front in fronts
  ]
  title = f"Training loss of the {names[TAIL]} against the mean ({unit})"
  return Figure(
    frame.drawing(
      identifier,
      title,
      "Better is left and down; no model of this kind lies below the line.",
      [
        *frame.axes(),
        *lines,
        *(scatter_chart.draw_point(point, frame) for point in points),
      ],
    ),
    title,
    "Better is left and down. Line: the front that no model of this kind can "
    "cross, one for each data seed. Points: runs.",
  )
