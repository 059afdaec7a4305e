"""Section: accuracy, fairness and loss over rounds, bytes or operations."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from binaries.report_page import curves, line_chart, scale, section
from binaries.report_page.curves import Curve
from binaries.report_page.frame import Frame
from binaries.report_page.line_chart import Line
from binaries.report_page.markup import Markup, element
from binaries.report_page.methods import Method, TaskRuns
from binaries.report_page.scale import Scale, Unit
from binaries.report_page.section import Section

_TITLE = "Curves"
_IMPROVED = "improved_share"
_MAX_WINDOWS = 50


class _Shown(NamedTuple):
  """A column of the evaluations that is drawn."""

  title: str
  column: str
  is_percent: bool = True


_SHOWN = (
  _Shown("Mean accuracy", "accuracy/mean"),
  _Shown("Standard deviation over clients", "accuracy/std"),
  _Shown("Accuracy of the worst 10 % of the clients", "accuracy/worst_10"),
  _Shown("Accuracy of the best 10 % of the clients", "accuracy/best_10"),
  _Shown("Mean loss", "loss/mean", is_percent=False),
  _Shown("Loss of the worst client", "loss/max", is_percent=False),
)


class _Axis(NamedTuple):
  """What curves are drawn against; without columns, the round."""

  name: str
  title: str
  label: str
  columns: tuple[str, ...] = ()

  def unit(self, largest: float) -> Unit:
    """Returns the unit for values up to the largest."""
    if not self.columns:
      return Unit()
    if self.name == "bytes":
      return scale.byte_unit(largest)
    return scale.count_unit(largest)


_AXES = (
  _Axis("rounds", "Rounds", "round"),
  _Axis(
    "bytes",
    "Bytes communicated",
    "bytes down and up",
    ("bytes_down", "bytes_up"),
  ),
  _Axis(
    "operations", "Local operations", "local operations", ("local_operations",)
  ),
)


def build(task: TaskRuns) -> Section:
  """Returns the section: a chart for each measure and axis."""
  panels = {axis: _panel(task, axis) for axis in _AXES}
  offered = {axis: panel for axis, panel in panels.items() if panel is not None}
  if not offered:
    return Section(_TITLE, absence="no finished run was evaluated")
  absent = [a.title.lower() for a, panel in panels.items() if panel is None]
  return Section(
    _TITLE,
    [
      section.note(
        "On the clients’ test data.",
        " Lines are means over seeds, bands one standard deviation to each "
        "side."
        if task.has_seeds
        else None,
        f" Not offered: {' and '.join(absent)}, which no run has counted "
        "(costs.csv)."
        if absent
        else None,
      ),
      _choice(task, offered) if len(offered) > 1 else offered.values(),
    ],
  )


def build_improved(task: TaskRuns) -> Section:
  """Returns the section about the share of clients that a round improved."""
  title = "Improved clients"
  lines, longest = [], 1
  absent = []
  for method in task.methods:
    curve = curves.over_seeds(method, lambda run: run.metrics, _IMPROVED)
    if curve is None:
      absent.append(method)
      continue
    # Without bands: they would cover each other.
    curve, length = curves.windows(curve._replace(std=None), _MAX_WINDOWS)
    longest = max(longest, length)
    lines.append(_line(method, curve, curve.rounds.astype(float), 100))
  if not lines:
    return Section(
      title, absence=f"no run has measured them ({_IMPROVED} in metrics.csv)"
    )
  last = max(line.x[-1] for line in lines)
  chart = line_chart.draw(
    lines,
    Frame(
      scale.linear(0, last, is_tight=True, is_whole=True),
      _y_scale(lines, is_percent=True),
      x_label="round",
    ),
    identifier=f"{task.identifier}-improved",
    title="Share of improved clients over rounds",
    description=_describe(lines, "the last rounds", " %"),
    x_name="round",
    y_unit=" %",
  )
  return Section(
    title,
    [
      section.note(
        "ρₜ: the share of a round’s cohort whose training loss did not rise.",
        " Mean over seeds." if task.has_seeds else None,
        f" Mean of each {longest} rounds." if longest > 1 else None,
      ),
      section.charts(section.figure(chart, "Improved clients (%)")),
      section.without(absent, f"their runs have no {_IMPROVED} in metrics.csv"),
    ],
  )


def _choice(task: TaskRuns, offered: Mapping[_Axis, Markup]) -> Markup:
  """Returns the panels, and buttons of which one is pressed.

  The style shows the panel that the button stands for.
  """
  return element(
    "div",
    element("span", "Against", class_="choice-name"),
    [_button(task, axis, n == 0) for n, axis in enumerate(offered)],
    offered.values(),
    class_="choice",
  )


def _button(task: TaskRuns, axis: _Axis, is_first: bool) -> list[Markup]:
  identifier = f"{task.identifier}-{axis.name}"
  return [
    element(
      "input",
      type="radio",
      name=f"{task.identifier}-axis",
      id=identifier,
      class_=f"by-{axis.name}",
      checked=is_first,
      autocomplete="off",
    ),
    element("label", axis.title, for_=identifier),
  ]


def _panel(task: TaskRuns, axis: _Axis) -> Markup | None:
  """Returns all charts against an axis; None if no method can be drawn."""
  costs = {
    method.number: curves.cumulated(method, axis.columns)
    for method in task.methods
    if axis.columns
  }
  absent = [m for m in task.methods if axis.columns and costs[m.number] is None]
  methods = [method for method in task.methods if method not in absent]
  figures = [
    figure
    for shown in _SHOWN
    if (figure := _figure(task, methods, shown, axis, costs)) is not None
  ]
  if not figures:
    return None
  return element(
    "div",
    section.charts(figures),
    section.without(absent, f"no {axis.title.lower()} were counted"),
    class_=f"panel on-{axis.name}",
  )


def _figure(
  task: TaskRuns,
  methods: Sequence[Method],
  shown: _Shown,
  axis: _Axis,
  costs: dict[int, Curve | None],
) -> Markup | None:
  factor = 100 if shown.is_percent else 1
  lines = []
  for method in methods:
    curve = curves.over_seeds(method, lambda run: run.evaluations, shown.column)
    if curve is None:
      continue
    cost = costs.get(method.number)
    x = (
      curve.rounds.astype(float)
      if cost is None
      else curves.against(curve, cost)
    )
    known = np.isfinite(x)
    if known.any():
      lines.append(_line(method, _part(curve, known), x[known], factor))
  if not lines:
    return None
  largest = max(line.x[-1] for line in lines)
  unit = axis.unit(largest)
  for line in lines:
    np.divide(line.x, unit.size, out=line.x)
  sign = " %" if shown.is_percent else ""
  chart = line_chart.draw(
    lines,
    Frame(
      _x_scale(lines, is_whole=not axis.columns),
      _y_scale(lines, is_percent=shown.is_percent),
      x_label=f"{axis.label} ({unit.name})" if unit.name else axis.label,
    ),
    identifier=f"{task.identifier}-{axis.name}-{_slug(shown.column)}",
    title=f"{shown.title} against {axis.title.lower()}",
    description=_describe(lines, "the end", sign),
    x_name=" ".join(filter(None, [axis.label, unit.name])),
    y_unit=sign,
    decimals=2 if shown.is_percent else 4,
  )
  return section.figure(chart, f"{shown.title}{' (%)' if sign else ''}")


def _line(method: Method, curve: Curve, x: np.ndarray, factor: float) -> Line:
  spread = None if curve.std is None else factor * curve.std
  return Line(
    method.label,
    method.number,
    method.style,
    x.copy(),
    factor * curve.mean,
    spread,
  )


def _part(curve: Curve, chosen: np.ndarray) -> Curve:
  std = None if curve.std is None else curve.std[chosen]
  return Curve(curve.rounds[chosen], curve.mean[chosen], std)


def _x_scale(lines: Sequence[Line], *, is_whole: bool) -> Scale:
  last = max(float(line.x[-1]) for line in lines)
  return scale.linear(0, last, is_tight=True, is_whole=is_whole)


def _y_scale(lines: Sequence[Line], *, is_percent: bool) -> Scale:
  """Returns a scale for all lines and bands, as far as these are finite."""
  low, high = _range([line.y for line in lines])
  if not is_percent and (wide := scale.logarithmic(low, high)) is not None:
    return wide  # Bands may go down to zero, which it has not.
  bands = [
    line.y + sign * line.spread
    for line in lines
    if line.spread is not None
    for sign in (-1, 1)
  ]
  low, high = _range([*(line.y for line in lines), *bands])
  most = 100 if is_percent else math.inf
  return scale.linear(max(low, 0), min(high, most), bounds=(0, most))


def _range(parts: Sequence[np.ndarray]) -> tuple[float, float]:
  values = np.concatenate(parts)
  values = values[np.isfinite(values)]
  return (values.min(), values.max()) if values.size else (0.0, 1.0)


def _describe(lines: Sequence[Line], where: str, sign: str) -> str:
  values = [
    f"{line.label} {scale.number_text(line.y[-1], 2)}{sign}"
    if np.isfinite(line.y[-1])
    else f"{line.label} not finite"
    for line in lines
  ]
  return f"At {where}: {', '.join(values)}."


def _slug(column: str) -> str:
  return column.replace("/", "-").replace("_", "-")
