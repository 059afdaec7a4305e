"""Section: the training losses of two clients over rounds.

The form of Figure 3 of Hamidi and Yang, "AdaFed: Fair Federated Learning via
Adaptive Common Descent Direction": one client with a large and one with a small
loss at the start. Theorem 4.1 there says that the larger loss falls faster.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from tff_fair.experiments.reporting import curves, line_chart, section
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.scale import number_text
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import ROUND, Run

_TITLE = "Losses of two clients"
# Of the model that the client received; the second is what the method used.
_COLUMNS = ("loss_before", "loss")
_DASHES = (None, "4 3")


class Losses(NamedTuple):
  """The losses of a client in the rounds in which it took part.

  Attributes:
    client: Its id.
    of_rounds: The losses by round, ascending, two or more.
  """

  client: int
  of_rounds: "pd.Series[float]"


def build(task: TaskRuns) -> Section:
  """Returns the section: a small chart for each method, of its first seed."""
  found = {method.number: _of_method(method) for method in task.methods}
  shown = [m for m in task.methods if found[m.number] is not None]
  lines = {m.number: _lines(task, m, found[m.number] or ()) for m in shown}
  if not shown:
    return Section(
      _TITLE,
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
    _TITLE,
    [
      section.note(
        "Training losses before the round, in the rounds in which the client "
        "took part; of the first seed. Solid: the client with the largest loss "
        "in the first round. Dashed: the one with the smallest. Runs that "
        "did not measure them have the losses that the method used."
      ),
      section.charts(
        [
          _figure(task, method, lines[method.number], frame) for method in shown
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
  column = next((name for name in _COLUMNS if _has(table, name)), None)
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


def _has(table: pd.DataFrame | None, column: str) -> bool:
  return (
    table is not None
    and column in table
    and bool(pd.to_numeric(table[column], errors="coerce").notna().any())
  )


def _of_method(method: MethodRuns) -> tuple[Losses, Losses] | None:
  """Returns what the method's first run with losses has."""
  found = map(extremes, method.runs)
  return next((of_run for of_run in found if of_run is not None), None)


def _lines(
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
    for losses, dashes in zip(found, _DASHES, strict=False)
  ]


def _figure(
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
