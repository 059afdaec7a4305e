"""Sections of single rounds: the direction, who improved, what is to gain."""

from typing import NamedTuple

import numpy as np

from tff_fair.experiments import stationarity
from tff_fair.experiments.reporting import curves, line_chart, scale, section
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.section import Section

# Section: the length of the direction over rounds.
#
# The form of Figure 4 of Hamidi and Yang, "AdaFed: Fair Federated Learning via
# Adaptive Common Descent Direction": ||d_t|| divided by its largest value,
# since the directions of two methods may be of different orders.


_DIRECTION_TITLE = "Length of the direction"
_DIRECTION_COLUMN = "aggregator/direction_norm"


def build_direction(task: TaskRuns) -> Section:
  """Returns the section: a chart with a line for each method."""
  found = {method.number: _direction_line(method) for method in task.methods}
  lines = [line for line in found.values() if line is not None]
  if not lines:
    return Section(
      _DIRECTION_TITLE,
      absence=f"no run has measured it ({_DIRECTION_COLUMN} in metrics.csv)",
    )
  if all(line.x.size == 1 for line in lines):
    return Section(_DIRECTION_TITLE, absence="there is one round alone")
  absent = [method for method in task.methods if found[method.number] is None]
  return Section(
    _DIRECTION_TITLE,
    [
      section.note(
        "‖dₜ‖, divided by its largest value in the run",
        ": methods have directions of different orders.",
        " Means over seeds." if task.has_seeds else None,
      ),
      section.charts(
        section.figure(_direction_chart(task, lines), "Length, relative")
      ),
      section.without(absent, f"their runs have no finite {_DIRECTION_COLUMN}"),
    ],
  )


def _direction_line(method: MethodRuns) -> Line | None:
  """Returns the line of a method; None if it has no direction above 0."""
  curve = curves.over_seeds(method, lambda run: run.rounds, _DIRECTION_COLUMN)
  if curve is None:
    return None
  known = np.isfinite(curve.mean)
  largest = curve.mean[known].max(initial=0.0)
  if not largest > 0:
    return None
  kept = curves.Curve(curve.rounds[known], curve.mean[known], None)
  x = kept.rounds.astype(float)
  return curves.line(method, kept, x, factor=1 / largest)


def _direction_chart(task: TaskRuns, lines: list[Line]) -> Markup:
  return line_chart.draw(
    lines,
    Frame(
      curves.x_scale(lines, is_whole=True),
      scale.linear(0, 1),
      x_label="round",
    ),
    identifier=f"{task.identifier}-direction",
    title="Length of the direction over rounds",
    description=curves.describe_ends(lines, "the end", ""),
    x_name="round",
    decimals=3,
  )


# Sections: the share of clients that a round improved, and how much all clients
# of a round can still gain together.

_MAX_WINDOWS = 50


class _Share(NamedTuple):
  """A number of each round, between 0 and 1.

  Attributes:
    title: The title of its section.
    column: The column of metrics.csv.
    identifier: Of the chart.
    name: What the chart shows.
    note: What it is.
    pronoun: Of the title.
  """

  title: str
  column: str
  identifier: str
  name: str
  note: str
  pronoun: str


_IMPROVED = _Share(
  title="Improved clients",
  column="improved_share",
  identifier="improved",
  name="Share of improved clients",
  note="ρₜ: the share of a round’s cohort whose training loss did not rise.",
  pronoun="them",
)
_STATIONARITY = _Share(
  title="Pareto stationarity",
  column=stationarity.COLUMN,
  identifier="stationarity",
  name="Pareto stationarity",
  note=(
    "The least norm in the convex hull of a round’s updates, divided by their "
    "mean norm. At 0, no step helps one client without harm to another."
  ),
  pronoun="it",
)


def build_improved(task: TaskRuns) -> Section:
  """Returns the section of the share of clients that a round improved."""
  return _share_section(task, _IMPROVED)


def build_stationarity(task: TaskRuns) -> Section:
  """Returns the section of the rounds' Pareto stationarity."""
  return _share_section(task, _STATIONARITY)


def _share_section(task: TaskRuns, share: _Share) -> Section:
  """Returns the section: a chart of the share over rounds."""
  lines, longest = [], 1
  absent = []
  for method in task.methods:
    found = _share_line(method, share)
    if found is None:
      absent.append(method)
      continue
    line, length = found
    longest = max(longest, length)
    lines.append(line)
  if not lines:
    return Section(
      share.title,
      absence=f"no run has measured {share.pronoun} ({share.column} in "
      "metrics.csv)",
    )
  if all(line.x.size == 1 for line in lines):
    return Section(share.title, absence="there is one round alone")
  return Section(
    share.title,
    [
      section.note(
        share.note,
        " Mean over seeds." if task.has_seeds else None,
        f" Each point is the mean of up to {longest} rounds."
        if longest > 1
        else None,
      ),
      section.charts(
        section.figure(_share_chart(task, share, lines), f"{share.title} (%)")
      ),
      section.without(
        absent, f"their runs have no {share.column} in metrics.csv"
      ),
    ],
  )


def _share_line(method: MethodRuns, share: _Share) -> tuple[Line, int] | None:
  """Returns the line of a method, and how many rounds a point stands for."""
  curve = curves.over_seeds(method, lambda run: run.rounds, share.column)
  if curve is None:
    return None
  # Without bands: they would cover each other.
  curve, length = curves.windows(curve._replace(std=None), _MAX_WINDOWS)
  x = curve.rounds.astype(float)
  return curves.line(method, curve, x, factor=100), length


def _share_chart(task: TaskRuns, share: _Share, lines: list[Line]) -> Markup:
  return line_chart.draw(
    lines,
    Frame(
      curves.x_scale(lines, is_whole=True),
      curves.y_scale(lines, is_percent=True),
      x_label="round",
    ),
    identifier=f"{task.identifier}-{share.identifier}",
    title=f"{share.name} over rounds",
    description=curves.describe_ends(lines, "the last rounds", " %"),
    x_name="round",
    y_unit=" %",
  )
