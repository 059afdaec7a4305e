"""Section: the share of clients that a round improved."""

from tff_fair.experiments.reporting import (
  curve_lines,
  curves,
  line_chart,
  section,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.reporting.section import Section

_TITLE = "Improved clients"
_COLUMN = "improved_share"
_MAX_WINDOWS = 50


def build(task: TaskRuns) -> Section:
  """Returns the section: a chart of the share over rounds."""
  lines, longest = [], 1
  absent = []
  for method in task.methods:
    found = _line(method)
    if found is None:
      absent.append(method)
      continue
    line, length = found
    longest = max(longest, length)
    lines.append(line)
  if not lines:
    return Section(
      _TITLE, absence=f"no run has measured them ({_COLUMN} in metrics.csv)"
    )
  if all(line.x.size == 1 for line in lines):
    return Section(_TITLE, absence="there is one round alone")
  return Section(
    _TITLE,
    [
      section.note(
        "ρₜ: the share of a round’s cohort whose training loss did not rise.",
        " Mean over seeds." if task.has_seeds else None,
        f" Each point is the mean of up to {longest} rounds."
        if longest > 1
        else None,
      ),
      section.charts(
        section.figure(_chart(task, lines), "Improved clients (%)")
      ),
      section.without(absent, f"their runs have no {_COLUMN} in metrics.csv"),
    ],
  )


def _line(method: Method) -> tuple[Line, int] | None:
  """Returns the line of a method, and how many rounds a point stands for."""
  curve = curves.over_seeds(method, lambda run: run.rounds, _COLUMN)
  if curve is None:
    return None
  # Without bands: they would cover each other.
  curve, length = curves.windows(curve._replace(std=None), _MAX_WINDOWS)
  x = curve.rounds.astype(float)
  return curve_lines.line(method, curve, x, factor=100), length


def _chart(task: TaskRuns, lines: list[Line]) -> Markup:
  return line_chart.draw(
    lines,
    Frame(
      curve_lines.x_scale(lines, is_whole=True),
      curve_lines.y_scale(lines, is_percent=True),
      x_label="round",
    ),
    identifier=f"{task.identifier}-improved",
    title="Share of improved clients over rounds",
    description=curve_lines.describe(lines, "the last rounds", " %"),
    x_name="round",
    y_unit=" %",
  )
