"""Sections: clients' gains from joining; clients that join late or never."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import joining_gains
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.html_tables import (
  Cell,
  Column,
  Head,
  Row,
  Table,
)
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.texts import sentences

_TITLE, _NEWCOMERS = "Is joining worth it", "Clients that come later"
_MAX_CLIENTS = 100
_NUMBERS = {"gaining": "Gain", "losing": "Lose", "undecided": "Undecided"}
# The title of each value in the summary, and whether it is a gain.
_MEANS = {
  "federated": ("In the federation", False),
  joining_gains.LOCAL: ("Alone", False),
  joining_gains.POOLED: ("One model on all data", False),
  joining_gains.FINETUNED: ("Fine-tuned", False),
  "mean": ("Mean gain", True),
  "min": ("Least gain", True),
}


def build(task: TaskRuns) -> section.Section:
  """Returns the section: a table of each method's clients."""
  methods = task.with_summary(summaries.JOINING)
  if not methods:
    absence = "no run has a baseline without a federation"
    return section.Section(_TITLE, absence=absence)
  return section.build(
    _TITLE,
    "joining",
    task,
    of_clients=dict(_of_clients(task, methods)),
    shown={method.number for method in methods},
  )


def of_methods(task: TaskRuns, methods: Sequence[Method]) -> Table:
  """Returns the table of methods' mean scores, gains, and counts of clients."""
  found = [[r.of_summary(summaries.JOINING) for r in m.runs] for m in methods]
  known = {name for runs in found for run in runs for name in run}
  columns = []
  for name, (title, is_gain) in _MEANS.items():
    measure = task.measures["mean"]._replace(title=title)
    if is_gain:
      measure = measure._replace(higher_is_better=True, is_signed=True)
    if name in known:
      values = [[f.get(name, math.nan) for f in runs] for runs in found]
      columns.append(html_tables.over_seeds(measure, values))
  for name, title in _NUMBERS.items():
    if name in known:
      cells = [_how_many(runs, name) for runs in found]
      columns.append(Column(Head(title, "descending"), cells))
  caption = (
    f"Mean test {task.score.noun} over clients{task.score.in_brackets}, and "
    "how many clients gain and lose"
  )
  return html_tables.of_methods(caption, methods, columns)


def _how_many(runs: Sequence[Mapping[str, Any]], name: str) -> Cell:
  """Returns a cell with the runs' numbers of clients, such as "0 or 1 of 8"."""
  known = [run for run in runs if name in run]
  if not known:
    return Cell(math.nan, "-")
  total = sum(int(known[0][n]) for n in _NUMBERS)
  counts = [int(run[name]) for run in known]
  return Cell(sum(counts) / len(counts), number_text.how_many(counts, total))


def _of_clients(
  task: TaskRuns, methods: Sequence[Method]
) -> Iterator[tuple[str, Table]]:
  """Yields each method's label and table of clients; skips very long tables."""
  score = task.score
  names = {
    f"test_{score.name}": "Federated",
    f"{joining_gains.LOCAL}_{score.name}": "Alone",
    f"{joining_gains.POOLED}_{score.name}": "Pooled",
    f"{joining_gains.FINETUNED}_{score.name}": "Fine-tuned",
  }
  first = html_tables.head(task.measures["mean"]).first
  for method in methods:
    clients = method.runs[0].clients
    if clients is None or len(clients) > _MAX_CLIENTS:
      continue
    shown = [column for column in names if column in clients]
    heads = [Head(names[column], first) for column in shown]
    has_gain = {*joining_gains.COLUMNS} <= {*clients}
    if has_gain:
      heads += [
        Head("Gain", "descending"),
        Head("95 % interval", "descending"),
        Head("p", "ascending"),
      ]
    rows = [
      Row(
        task.clients.full(int(row["client_id"])),
        [
          *(_cell(row[c], score.number(row[c])) for c in shown),
          *(_gain(task, row) if has_gain else ()),
        ],
      )
      for row in clients.to_dict("records")
    ]
    caption = (
      f"Clients of {method.label}, seed {method.runs[0].seeds}: test "
      f"{score.noun}{score.in_brackets}"
    )
    yield method.label, Table(caption, "Client", heads, rows)


def _gain(task: TaskRuns, row: Mapping[Any, Any]) -> list[Cell]:
  score = task.score
  gain, low, high, p_value = (row[c] for c in joining_gains.COLUMNS)
  return [
    _cell(gain, number_text.fixed(score.scale * gain, score.digits, "+")),
    _cell(
      low,
      f"{score.number(low)} to {score.number(high)}",
      "-" if pd.isna(gain) else "too few examples",
    ),
    _cell(p_value, f"{p_value:.3g}"),
  ]


def _cell(value: float, text: str, missing: str = "-") -> Cell:
  if pd.isna(value):
    return Cell(math.nan, missing)
  return Cell(value, number_text.with_minus(text))


def build_newcomers(task: TaskRuns) -> section.Section:
  """Returns the section of clients that never trained, or joined late."""
  unseen, late = map(task.with_summary, (summaries.UNSEEN, summaries.LATE))
  if not unseen and not late:
    return section.Section(_NEWCOMERS)
  of_clients = f"{task.score.noun}{task.score.in_brackets} of clients that"
  of_unseen = {
    "Mean, took part": (f"test_{task.score.name}", "mean"),
    "Mean, did not": (summaries.UNSEEN, "mean"),
    "Worst, did not": (summaries.UNSEEN, "worst"),
    "80 % get": (summaries.UNSEEN, "bound"),
  }
  of_late = {
    f"{whose}, {when}": (summaries.LATE, group, when)
    for group, whose in (("joining", "Late"), ("others", "Others"))
    for when in ("before", "after")
  }
  return section.build(
    _NEWCOMERS,
    "newcomers",
    task,
    tables=[
      *_of_summaries(
        task,
        f"Test {of_clients} took part in training, and of those that did not",
        unseen,
        of_unseen,
      ),
      *_of_summaries(
        task,
        f"Mean test {of_clients} joined late and of the others, before they "
        "joined and after the last round",
        late,
        of_late,
      ),
    ],
    sentences=[
      f"{method.label}: {sentence}"
      for method in task.methods
      for sentence in sentences.newcomers(
        method.runs[0].summary or {}, task.score
      )
    ],
  )


def _of_summaries(
  task: TaskRuns,
  caption: str,
  methods: Sequence[Method],
  columns: Mapping[str, Sequence[str]],
) -> Iterator[Table]:
  """Yields a table of the methods' summary values, if there are methods."""
  if not methods:
    return
  shown = []
  for title, (key, *names) in columns.items():
    values: list[list[float]] = []
    for method in methods:
      values.append([])
      for run in method.runs:
        found: Any = run.of_summary(key)
        for name in names:
          found = found.get(name, math.nan)
        values[-1].append(float(found))
    measure = task.measures["mean"]._replace(title=title)
    shown.append(html_tables.over_seeds(measure, values))
  yield html_tables.of_methods(caption, methods, shown)
