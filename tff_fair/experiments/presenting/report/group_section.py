"""Section: fairness between groups of people, not between clients."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report import (
  final_measures,
  html_tables,
  section,
)
from tff_fair.experiments.presenting.report.html_tables import (
  Cell,
  Head,
  Row,
  Table,
)
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs import summaries, tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.texts import sentences

_TITLE = "Groups inside clients"
_MAX_CLIENTS = 40  # The most rows of a table of clients.
_SHARES = {
  "accuracy": "Right",
  "positive_rate": "Positive predictions",
  "true_positive_rate": "Of the positive",
  "false_positive_rate": "Of the negative",
}


def build(task: TaskRuns) -> section.Section:
  """Returns the section on groups, empty if no method's data have groups."""
  methods = task.with_summary(summaries.GROUPS)
  if not methods:
    return section.Section(_TITLE)
  runs = [(method.label, method.runs[0]) for method in methods]
  return section.build(
    _TITLE,
    "groups",
    task,
    table=_of_methods(task, methods),
    tension=[*_tension(task, methods)],
    sentences=[
      f"{label}, seed {run.seeds}: {sentence}"
      for label, run in runs
      for sentence in sentences.groups(run.summary or {})
    ],
    of_groups={label: _of_groups(label, run) for label, run in runs},
    of_clients=[
      _of_clients(task, label, run)
      for label, run in runs
      if run.clients is not None
    ],
  )


def _gap(run: Run, name: str) -> float:
  gaps = run.of_summary(summaries.GROUPS)["gaps"]
  return float(gaps.get(name, {}).get("value", math.nan))


def _of_methods(task: TaskRuns, methods: Sequence[Method]) -> Table:
  columns = [
    final_measures.column(task, methods, name)
    for name in ("mean", "std", "worst_10")
  ]
  for name in sentences.GAPS:
    measure = Measure(_head(name), False, 100.0, 1)
    gaps = [[_gap(run, name) for run in method.runs] for method in methods]
    columns.append(html_tables.over_seeds(measure, gaps))
  caption = (
    f"Test {task.score.noun}{task.score.in_brackets} over clients, and gaps "
    "between groups (points of percent)"
  )
  return html_tables.of_methods(caption, methods, columns)


def _head(name: str) -> str:
  return sentences.GAPS[name].capitalize()


def _tension(task: TaskRuns, methods: Sequence[Method]) -> Iterator[str]:
  """Yields sentences if fairness to clients and fairness to groups conflict."""
  first, *others = methods
  for method in others:
    worst = final_measures.of_method(task, method, "worst_10").mean
    before = final_measures.of_method(task, first, "worst_10").mean
    changes = {
      title: _mean_gap(method, name) - _mean_gap(first, name)
      for name, title in sentences.GAPS.items()
    }
    for sign, is_better, words, width in (
      (1, task.score.is_better(worst, before), "better", "wider"),
      (-1, task.score.is_better(before, worst), "less good", "narrower"),
    ):
      gaps = [title for title, change in changes.items() if sign * change > 0]
      if gaps and is_better:
        yield (
          f"{method.label} has a {words} worst 10 % of clients than "
          f"{first.label}, and {width} gaps of {', '.join(gaps)}."
        )


def _mean_gap(method: Method, name: str) -> float:
  return sum(_gap(run, name) for run in method.runs) / len(method.runs)


def _of_groups(label: str, run: Run) -> Table:
  groups = run.of_summary(summaries.GROUPS)["groups"]
  shown = {
    share: title
    for share, title in _SHARES.items()
    if any(share in of_group for of_group in groups.values())
  }
  rows = [
    Row(
      name,
      [
        Cell(of_group["examples"], f"{of_group['examples']:,}"),
        *(_share(of_group.get(share, math.nan)) for share in shown),
      ],
    )
    for name, of_group in groups.items()
  ]
  return Table(
    f"Groups under {label}, seed {run.seeds}: shares in percent",
    "Group",
    [Head(title, "descending") for title in ("Examples", *shown.values())],
    rows,
  )


def _share(share: float) -> Cell:
  return Cell(share, "-" if math.isnan(share) else number_text.percent(share))


def _of_clients(task: TaskRuns, label: str, run: Run) -> dict[str, Any]:
  """Returns template values about the run's clients with the widest gaps."""
  found = run.of_summary(summaries.GROUPS)
  clients = tables.drop_unseen(run.clients)
  names = [name for name in sentences.GAPS if name in clients]
  widest = clients[[f"{name}_low" for name in names]].max(axis=1).dropna()
  known = clients.loc[widest.index]
  order = widest.sort_values(ascending=False, kind="stable").index
  shown = known.loc[order[:_MAX_CLIENTS]]
  rows = []
  if len(shown):
    examples = clients["num_test_examples"].sum()
    gaps = [
      [gap.get(end, math.nan) for end in ("value", "low", "high")]
      for gap in found["gaps"].values()
    ]
    rows.append(_row("All clients", examples, gaps))
  for row in shown.to_dict("records"):
    gaps = [
      [row[f"{name}{end}"] for end in ("", "_low", "_high")] for name in names
    ]
    name = task.clients.full(int(row["client_id"]))
    rows.append(_row(name, row["num_test_examples"], gaps))
  return {
    "label": label,
    "least": found["least_examples"],
    "num_shown": f"{len(shown):,}",
    "num_clients": f"{len(clients):,}",
    "above": "; ".join(
      f"{sentences.GAPS[name]}: {(known[f'{name}_low'] > 0).sum():,} of "
      f"{known[name].count():,}"
      for name in names
      if known[name].notna().any()
    ),
    "table": Table(
      f"Gaps between groups at each client under {label}, seed {run.seeds}, in "
      "points of percent with 95 % intervals",
      "Client",
      [
        Head("Test examples", "descending"),
        *(Head(_head(name), "ascending") for name in names),
      ],
      rows,
    )
    if len(shown)
    else None,
  }


def _row(client: str, examples: int, gaps: Sequence[Sequence[float]]) -> Row:
  """Returns a client's row: its examples, and each gap with its interval."""
  cells = [Cell(int(examples), f"{int(examples):,}")]
  for gap in gaps:
    cell = _share(gap[0])
    if not math.isnan(gap[0]):
      low, high = map(number_text.percent, gap[1:])
      cell = dataclasses.replace(cell, small=f" {low} to {high}")
    cells.append(cell)
  return Row(client, cells)
