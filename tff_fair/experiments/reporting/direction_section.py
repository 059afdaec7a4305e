"""Section: the length of the direction over rounds.

The form of Figure 4 of Hamidi and Yang, "AdaFed: Fair Federated Learning via
Adaptive Common Descent Direction": ||d_t|| divided by its largest value, since
the directions of two methods may be of different orders.
"""

import numpy as np

from tff_fair.experiments.reporting import (
  curve_lines,
  curves,
  line_chart,
  scale,
  section,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.reporting.section import Section

_TITLE = "Length of the direction"
_COLUMN = "aggregator/direction_norm"


def build(task: TaskRuns) -> Section:
  """Returns the section: a chart with a line for each method."""
  found = {method.number: _line(method) for method in task.methods}
  lines = [line for line in found.values() if line is not None]
  if not lines:
    return Section(
      _TITLE, absence=f"no run has measured it ({_COLUMN} in metrics.csv)"
    )
  if all(line.x.size == 1 for line in lines):
    return Section(_TITLE, absence="there is one round alone")
  absent = [method for method in task.methods if found[method.number] is None]
  return Section(
    _TITLE,
    [
      section.note(
        "‖dₜ‖, divided by its largest value in the run",
        ": methods have directions of different orders.",
        " Means over seeds." if task.has_seeds else None,
      ),
      section.charts(section.figure(_chart(task, lines), "Length, relative")),
      section.without(absent, f"their runs have no finite {_COLUMN}"),
    ],
  )


def _line(method: Method) -> Line | None:
  """Returns the line of a method; None if it has no direction above 0."""
  curve = curves.over_seeds(method, lambda run: run.rounds, _COLUMN)
  if curve is None:
    return None
  known = np.isfinite(curve.mean)
  largest = curve.mean[known].max(initial=0.0)
  if not largest > 0:
    return None
  kept = curves.Curve(curve.rounds[known], curve.mean[known], None)
  x = kept.rounds.astype(float)
  return curve_lines.line(method, kept, x, factor=1 / largest)


def _chart(task: TaskRuns, lines: list[Line]) -> Markup:
  return line_chart.draw(
    lines,
    Frame(
      curve_lines.x_scale(lines, is_whole=True),
      scale.linear(0, 1),
      x_label="round",
    ),
    identifier=f"{task.identifier}-direction",
    title="Length of the direction over rounds",
    description=curve_lines.describe(lines, "the end", ""),
    x_name="round",
    decimals=3,
  )
