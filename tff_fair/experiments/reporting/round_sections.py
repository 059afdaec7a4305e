"""Sections of single rounds: the direction, who improved, losses, rules."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import certificates, replaying
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import (
  curves,
  html_tables,
  line_chart,
  scale,
  section,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Child, Markup
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.scale import number_text
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import ROUND, Run


def _over_rounds(
  task: TaskRuns,
  title: str,
  absence: str,
  lines: Mapping[int, Line | None],
  body: Callable[[list[Line]], list[Child]],
  reason: str,
) -> Section:
  """Returns a section of lines over rounds.

  `absence` says why there is no section without a line, `reason` why the other
  methods have none.
  """
  shown = [line for line in lines.values() if line is not None]
  if not shown:
    return Section(title, absence=absence)
  if all(line.x.size == 1 for line in shown):
    return Section(title, absence="there is one round alone")
  absent = [method for method in task.methods if lines[method.number] is None]
  return Section(title, [*body(shown), section.without(absent, reason)])


# Section: the length of the direction over rounds.
#
# The form of Figure 4 of Hamidi and Yang, "AdaFed: Fair Federated Learning via
# Adaptive Common Descent Direction": ||d_t|| divided by its largest value,
# since the directions of two methods may be of different orders.


_DIRECTION_COLUMN = "aggregator/direction_norm"


def build_direction(task: TaskRuns) -> Section:
  """Returns the section: a chart with a line for each method."""

  def body(lines: list[Line]) -> list[Child]:
    return [
      section.note(
        "‖dₜ‖, divided by its largest value in the run",
        ": methods have directions of different orders.",
        " Means over seeds." if task.has_seeds else None,
      ),
      section.charts(
        section.figure(_direction_chart(task, lines), "Length, relative")
      ),
    ]

  return _over_rounds(
    task,
    "Length of the direction",
    f"no run has measured it ({_DIRECTION_COLUMN} in metrics.csv)",
    {method.number: _direction_line(method) for method in task.methods},
    body,
    f"their runs have no finite {_DIRECTION_COLUMN}",
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
  column=certificates.STATIONARITY_COLUMN,
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
  found = {m.number: _share_line(m, share) for m in task.methods}
  longest = max(
    (length for _, length in filter(None, found.values())), default=1
  )

  def body(lines: list[Line]) -> list[Child]:
    return [
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
    ]

  return _over_rounds(
    task,
    share.title,
    f"no run has measured {share.pronoun} ({share.column} in metrics.csv)",
    {number: line and line[0] for number, line in found.items()},
    body,
    f"their runs have no {share.column} in metrics.csv",
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


# Section: rules on the same rounds, as `binaries.replay` compared them.
#
# It is there for runs with a replay.csv alone.


def build_replay(task: TaskRuns) -> list[Section]:
  """Returns the section, if rules were applied to a run of the task."""
  body: list[Child] = []
  for run in task.runs:
    try:
      replays = run.replays
    except RunError as error:
      body.append(section.note(f"A replay is left out, as damaged: {error}"))
      continue
    if replays is not None and len(replays):
      compared = replaying.compare_replays(replays)
      caption = f"Rules on the rounds of {run.path.name}"
      body.append(html_tables.of_text(caption, replaying.cells(compared)))
  if not body:
    return []
  note = section.note(
    "What each rule would have done in the rounds of one run, from the updates "
    "that its clients sent. Harmed: clients whose loss rises to first order. "
    "Worst cosine: between the step and the update of the client that it helps "
    "least. Change of loss: by the step, to first order. Angle: to the step "
    "that the run took. In brackets 95 % intervals over rounds."
  )
  return [Section("Rules on the same rounds", [note, *body])]


# Section: the training losses of two clients over rounds.
#
# The form of Figure 3 of Hamidi and Yang, "AdaFed: Fair Federated Learning via
# Adaptive Common Descent Direction": one client with a large and one with a
# small loss at the start. Theorem 4.1 there says that the larger loss falls
# faster.


_LOSS_TITLE = "Losses of two clients"
# Of the model that the client received; the second is what the method used.
_LOSS_COLUMNS = ("loss_before", "loss")
_LOSS_DASHES = (None, "4 3")


class Losses(NamedTuple):
  """The losses of a client in the rounds in which it took part.

  Attributes:
    client: Its id.
    of_rounds: The losses by round, ascending, two or more.
  """

  client: int
  of_rounds: "pd.Series[float]"


def build_losses(task: TaskRuns) -> Section:
  """Returns the section: a small chart for each method, of its first seed."""
  found = {method.number: _losses_of_method(method) for method in task.methods}
  shown = [m for m in task.methods if found[m.number] is not None]
  lines = {m.number: _loss_lines(task, m, found[m.number] or ()) for m in shown}
  if not shown:
    return Section(
      _LOSS_TITLE,
      absence="no two clients of the first round have losses in a later one "
      "(loss_before or loss in cohorts.csv)",
    )
  everything = [line for of_method in lines.values() for line in of_method]
  frame = Frame(
    curves.x_scale(everything, is_whole=True),
    curves.y_scale(everything, is_percent=False),
    x_label="round",
    width=260,
    height=170,
    left=40,
  )
  return Section(
    _LOSS_TITLE,
    [
      section.note(
        "Training losses before the round, in the rounds in which the client "
        "took part; of the first seed. Solid: the client with the largest loss "
        "in the first round. Dashed: the one with the smallest. Runs that "
        "did not measure them have the losses that the method used."
      ),
      section.charts(
        [
          _loss_figure(task, method, lines[method.number], frame)
          for method in shown
        ],
        class_="charts small",
      ),
      section.without(
        [method for method in task.methods if method not in shown],
        "their runs have no such losses in cohorts.csv",
      ),
    ],
  )


def extremes(run: Run) -> tuple[Losses, Losses] | None:
  """Returns the clients with the largest and the smallest loss at the start.

  Of the clients of the first round that take part again; of equal ones, those
  with the smallest id.

  Args:
    run: A run.

  Returns:
    The two; None if the run has no losses, or fewer such clients.
  """
  table = run.cohorts
  column = next(
    (name for name in _LOSS_COLUMNS if _has_numbers(table, name)), None
  )
  if table is None or column is None:
    return None
  losses = pd.to_numeric(table[column], errors="coerce")
  table = table.assign(**{column: losses})[[ROUND, "client_id", column]]
  table = table[losses.abs() < float("inf")].sort_values([ROUND, "client_id"])
  first = table[table[ROUND] == 1]
  counts = table["client_id"].value_counts()
  again = first[first["client_id"].map(counts) > 1].set_index("client_id")
  if len(again) < 2:
    return None
  starts = again[column]
  low, high = (
    Losses(
      int(client),
      table[table["client_id"] == client].set_index(ROUND)[column],
    )
    for client in (starts.idxmin(), starts.drop(starts.idxmin()).idxmax())
  )
  return high, low


def _has_numbers(table: pd.DataFrame | None, column: str) -> bool:
  return (
    table is not None
    and column in table
    and bool(pd.to_numeric(table[column], errors="coerce").notna().any())
  )


def _losses_of_method(method: MethodRuns) -> tuple[Losses, Losses] | None:
  """Returns what the method's first run with losses has."""
  found = map(extremes, method.runs)
  return next((of_run for of_run in found if of_run is not None), None)


def _loss_lines(
  task: TaskRuns, method: MethodRuns, found: Sequence[Losses]
) -> list[Line]:
  return [
    Line(
      task.clients.full(losses.client),
      method.number,
      dataclasses.replace(method.style, dashes=dashes),
      losses.of_rounds.index.to_numpy(float),
      losses.of_rounds.to_numpy(float),
      None,
    )
    for losses, dashes in zip(found, _LOSS_DASHES, strict=False)
  ]


def _loss_figure(
  task: TaskRuns, method: MethodRuns, lines: Sequence[Line], frame: Frame
) -> Markup:
  ends = "; ".join(
    # A no-break space on each side of the arrow.
    f"{line.label}: {number_text(line.y[0], 2)}\u00a0→\u00a0"
    f"{number_text(line.y[-1], 2)}"
    for line in lines
  )
  chart = line_chart.draw(
    lines,
    frame,
    identifier=f"{task.identifier}-losses-{method.number}",
    title=f"Losses of two clients, {method.label}",
    description=f"From the first round to the last: {ends}.",
    x_name="round",
    decimals=4,
  )
  return section.figure(chart, method.label, ends, class_=f"m{method.number}")
