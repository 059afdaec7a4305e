"""Sections: what clients gain from joining, and clients that come later."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tff_fair.experiments.analysis import joining
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.markup import Markup
from tff_fair.experiments.presenting.report.section import Section
from tff_fair.experiments.presenting.report.task_runs import (
  MethodRuns,
  TaskRuns,
)
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.texts import sentences

_TITLE = "Is joining worth it"
_MAX_CLIENTS = 100
_NUMBERS = {
  "gaining": "Gain",
  "losing": "Lose",
  "undecided": "Cannot be told",
}


def build(task: TaskRuns) -> Section:
  """Returns the section: a table of methods, and one of clients for each."""
  methods = task.with_summary(summaries.JOINING)
  if not methods:
    return Section(_TITLE, absence="no run has a baseline without a federation")
  return Section(
    _TITLE,
    [
      section.note(
        f"Mean test {task.score.noun} over clients{task.score.in_brackets} in "
        "the federation, of each client that trains alone, and of one model on "
        "all data in one place. A client gains or loses where the two models "
        "differ on its own test examples, by a paired test with Holm’s "
        "correction for the clients; the others cannot be told. Where the two "
        "models’ outputs could change places example by example, any client is "
        "told to gain or lose with probability 5 % at most."
      ),
      _of_methods(task, methods),
      *(_of_clients(task, method) for method in methods),
      section.without(
        task, {method.number for method in methods}, "they have no baseline"
      ),
    ],
  )


def _of_methods(task: TaskRuns, methods: list[MethodRuns]) -> Markup:
  of_score = task.measures["mean"]
  shown: dict[str, Measure] = {
    "federated": of_score._replace(title="Federated"),
    joining.LOCAL: of_score._replace(title="Alone"),
    joining.POOLED: of_score._replace(title="Pooled"),
    "mean": of_score._replace(
      title="Mean gain", higher_is_better=True, is_signed=True
    ),
    "min": of_score._replace(
      title="Least gain", higher_is_better=True, is_signed=True
    ),
  }
  found = [
    [run.of_summary(summaries.JOINING) for run in m.runs] for m in methods
  ]
  columns = [
    html_tables.over_seeds(
      measure, [[f.get(name, math.nan) for f in runs] for runs in found]
    )
    for name, measure in shown.items()
    if any(name in f for runs in found for f in runs)
  ]
  columns += [
    html_tables.TableColumn(
      title,
      "descending",
      [_how_many(runs, name) for runs in found],
    )
    for name, title in _NUMBERS.items()
    if any(name in f for runs in found for f in runs)
  ]
  caption = (
    f"Mean test {task.score.noun} over clients{task.score.in_brackets}, and "
    "numbers of clients"
  )
  return html_tables.draw(caption, methods, columns)


def _how_many(runs: Sequence[Mapping[str, Any]], name: str) -> Markup:
  """Returns a cell of numbers of clients over seeds, as "0 or 1 of 8"."""
  known = [run for run in runs if name in run]
  if not known:
    return html_tables.cell(math.nan, "-")
  total = sum(int(known[0][n]) for n in _NUMBERS)
  counts = [int(run[name]) for run in known]
  return html_tables.cell(
    sum(counts) / len(counts), sentences.how_many(counts, total)
  )


def _of_clients(task: TaskRuns, method: MethodRuns) -> Markup | None:
  """Returns the clients of a method's first run, if they are few."""
  clients = method.runs[0].clients
  if clients is None or len(clients) > _MAX_CLIENTS:
    return None
  score = task.score
  names = {
    f"test_{score.name}": "Federated",
    f"{joining.LOCAL}_{score.name}": "Alone",
    f"{joining.POOLED}_{score.name}": "Pooled",
  }
  shown_columns = {
    column: head for column, head in names.items() if column in clients
  }
  has_gain = {*joining.COLUMNS} <= {*clients}
  first = html_tables.first_order(task.measures["mean"])
  heads = [(head, first) for head in shown_columns.values()]
  if has_gain:
    heads += [
      ("Gain", "descending"),
      ("95 % interval", "descending"),
      ("p", "ascending"),
    ]
  table = html_tables.sortable(
    f"Clients of {method.label}, seed {method.runs[0].seeds}: test "
    f"{score.noun}{score.in_brackets}",
    "Client",
    heads,
    [
      _row(task, row, [*shown_columns], has_gain=has_gain)
      for row in clients.to_dict("records")
    ],
  )
  return section.fold(f"The clients of {method.label}", table)


def _row(
  task: TaskRuns, row: Mapping[Any, Any], columns: list[str], *, has_gain: bool
) -> list[Markup]:
  score, name = task.score, task.clients.full(int(row["client_id"]))
  cells = [_number(row[c], score.number(row[c])) for c in columns]
  if has_gain:
    gain, low, high, p_value = (row[c] for c in joining.COLUMNS)
    cells += [
      _number(gain, f"{score.scale * gain:+.{score.digits}f}"),
      _number(
        low,
        f"{score.number(low)} to {score.number(high)}",
        "-" if pd.isna(gain) else "too few examples",
      ),
      _number(p_value, f"{p_value:.3g}"),
    ]
  return [html_tables.name_cell(name), *cells]


def _number(value: float, text: str, missing: str = "-") -> Markup:
  is_known = not pd.isna(value)
  return html_tables.cell(
    value, html_tables.with_minus(text) if is_known else missing
  )


# Section: clients that took no part in training, or joined late.


_NEWCOMER_TITLE = "Clients that come later"


def build_newcomers(task: TaskRuns) -> Section:
  """Returns the section, which is empty if no run has such clients."""
  unseen, late = map(task.with_summary, (summaries.UNSEEN, summaries.LATE))
  if not unseen and not late:
    return Section(_NEWCOMER_TITLE)
  return Section(
    _NEWCOMER_TITLE,
    [
      section.note(
        "All other numbers of the page are of clients that may take part in "
        "training. With several seeds, sentences are of the first."
      ),
      _of_unseen(task, unseen) if unseen else None,
      _of_late(task, late) if late else None,
      section.bullets(
        f"{method.label}: {sentence}"
        for method in task.methods
        for sentence in sentences.newcomers(
          method.runs[0].summary or {}, task.score
        )
      ),
    ],
  )


def _of_unseen(task: TaskRuns, methods: Sequence[MethodRuns]) -> Markup:
  seen = f"test_{task.score.name}"
  return html_tables.draw(
    f"Test {task.score.noun}{task.score.in_brackets} of clients that took part "
    "in training, and of those that did not",
    methods,
    [
      _column(task, methods, title, *names)
      for title, *names in (
        ("Mean, took part", seen, "mean"),
        ("Mean, did not", summaries.UNSEEN, "mean"),
        ("Worst, did not", summaries.UNSEEN, "worst"),
        ("80 % get", summaries.UNSEEN, "bound"),
      )
    ],
  )


def _of_late(task: TaskRuns, methods: Sequence[MethodRuns]) -> Markup:
  return html_tables.draw(
    f"Mean test {task.score.noun}{task.score.in_brackets} of clients that "
    "joined late and of the others, before they joined and after the last "
    "round",
    methods,
    [
      _column(task, methods, f"{whose}, {when}", summaries.LATE, group, when)
      for group, whose in (("joining", "Late"), ("others", "Others"))
      for when in ("before", "after")
    ],
  )


def _column(
  task: TaskRuns, methods: Sequence[MethodRuns], title: str, *names: str
) -> html_tables.TableColumn:
  """Returns the column of a number in the summaries of runs."""
  return html_tables.over_seeds(
    task.measures["mean"]._replace(title=title),
    [[_value(run, *names) for run in method.runs] for method in methods],
  )


def _value(run: Run, key: str, *names: str) -> float:
  """Returns a number of a run's summary; NaN where it has none."""
  found: Any = run.of_summary(key)
  for name in names:
    found = found.get(name, math.nan)
  return float(found)
