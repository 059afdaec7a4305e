"""Section: groups of people inside clients, beside fairness between clients."""

import math
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report import (
  final_measures,
  html_tables,
  section,
)
from tff_fair.experiments.presenting.report.markup import Markup, element
from tff_fair.experiments.presenting.report.section import Section
from tff_fair.experiments.presenting.report.task_runs import (
  MethodRuns,
  TaskRuns,
)
from tff_fair.experiments.runs import summaries, tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.texts import sentences

_TITLE = "Groups inside clients"
_MAX_CLIENTS = 40  # In a table.
_SHARES = {
  "accuracy": "Right",
  "positive_rate": "Positive predictions",
  "true_positive_rate": "Of the positive",
  "false_positive_rate": "Of the negative",
}


def build(task: TaskRuns) -> Section:
  """Returns the section, which is empty if no run knows groups."""
  methods = task.with_summary(summaries.GROUPS)
  if not methods:
    return Section(_TITLE)
  return Section(
    _TITLE,
    [
      section.note(
        "Fairness between clients, and between groups of people over all "
        "clients: a gap is the largest share of a group minus the smallest, "
        "of right predictions (accuracy parity), of positive ones "
        "(demographic parity), of these among the positive (equal "
        "opportunity), or among the positive or the negative (equalized "
        "odds)."
      ),
      _of_methods(task, methods),
      _tension(task, methods),
      section.bullets(
        f"{method.label}, seed {run.seeds}: {sentence}"
        for method in methods
        for run in method.runs[:1]
        for sentence in sentences.groups(run.summary or {})
      ),
      *(_of_groups(method) for method in methods),
      *(_of_clients(task, method) for method in methods),
    ],
  )


def _summary_of(run: Run) -> Mapping[str, Any]:
  return run.of_summary(summaries.GROUPS)


def _gap(run: Run, name: str) -> float:
  return float(_summary_of(run)["gaps"].get(name, {}).get("value", math.nan))


def _of_methods(task: TaskRuns, methods: list[MethodRuns]) -> Markup:
  columns = [
    final_measures.column(task, methods, name)
    for name in ("mean", "std", "worst_10")
  ]
  for name in sentences.GAPS:
    measure = Measure(_head(name), False, 100.0, 1)
    columns.append(
      html_tables.over_seeds(
        measure, [[_gap(run, name) for run in m.runs] for m in methods]
      )
    )
  caption = (
    f"Test {task.score.noun}{task.score.in_brackets} over clients, and gaps "
    "between groups (points of percent)"
  )
  return html_tables.draw(caption, methods, columns)


def _head(name: str) -> str:
  return sentences.GAPS[name].capitalize()


def _tension(task: TaskRuns, methods: list[MethodRuns]) -> Markup | None:
  """Returns where fairness to clients and to groups pull against each other."""
  first, *others = methods
  lines = []
  for method in others:
    worst, before = (
      final_measures.of_method(task, m, "worst_10").mean
      for m in (method, first)
    )
    changes = {
      title: _mean_gap(method, name) - _mean_gap(first, name)
      for name, title in sentences.GAPS.items()
    }
    wider = [title for title, change in changes.items() if change > 0]
    narrower = [title for title, change in changes.items() if change < 0]
    if wider and task.score.is_better(worst, before):
      lines.append(
        f"{method.label} has a better worst 10 % of clients than "
        f"{first.label}, and wider gaps of {', '.join(wider)}."
      )
    if narrower and task.score.is_better(before, worst):
      lines.append(
        f"{method.label} has a less good worst 10 % of clients than "
        f"{first.label}, and narrower gaps of {', '.join(narrower)}."
      )
  return section.bullets(lines)


def _mean_gap(method: MethodRuns, name: str) -> float:
  return sum(_gap(run, name) for run in method.runs) / len(method.runs)


def _of_groups(method: MethodRuns) -> Markup:
  """Returns the shares of each group in a method's first run."""
  run = method.runs[0]
  groups = _summary_of(run)["groups"]
  shown = {
    share: title
    for share, title in _SHARES.items()
    if any(share in of_group for of_group in groups.values())
  }
  table = html_tables.sortable(
    f"Groups under {method.label}, seed {run.seeds}: shares in percent",
    "Group",
    [(title, "descending") for title in ("Examples", *shown.values())],
    [
      [
        html_tables.name_cell(name),
        html_tables.cell(of_group["examples"], f"{of_group['examples']:,}"),
        *(_share(of_group.get(share)) for share in shown),
      ]
      for name, of_group in groups.items()
    ],
  )
  return section.fold(f"The groups under {method.label}", table)


def _of_clients(task: TaskRuns, method: MethodRuns) -> Markup | None:
  """Returns the gaps at each client in a method's first run.

  Of many clients, these are the ones whose intervals are farthest above 0.
  """
  run = method.runs[0]
  if run.clients is None:
    return None
  found, clients = _summary_of(run), tables.seen(run.clients)
  names = [name for name in sentences.GAPS if name in clients]
  lows = clients[[f"{name}_low" for name in names]]
  known = clients[lows.notna().any(axis=1)]
  if known.empty:
    return section.note(
      f"No client has two groups with {found['least_examples']} test examples "
      f"under {method.label}: nothing is said of its own gaps."
    )
  widest = (
    lows.max(axis=1)
    .loc[known.index]
    .sort_values(ascending=False, kind="stable")
  )
  shown = known.loc[widest.index[:_MAX_CLIENTS]]
  above = "; ".join(
    f"{sentences.GAPS[name]}: {(known[f'{name}_low'] > 0).sum():,} of "
    f"{known[name].count():,}"
    for name in names
    if known[name].notna().any()
  )
  table = html_tables.sortable(
    f"Gaps between groups at each client under {method.label}, seed "
    f"{run.seeds}, in points of percent with 95 % intervals",
    "Client",
    [
      ("Test examples", "descending"),
      *((_head(name), "ascending") for name in names),
    ],
    [
      _row(
        "All clients", int(clients["num_test_examples"].sum()), found["gaps"]
      ),
      *(
        _row(
          task.clients.full(int(row["client_id"])),
          int(row["num_test_examples"]),
          {name: _of_row(row, name) for name in names},
        )
        for row in shown.to_dict("records")
      ),
    ],
  )
  return section.fold(
    f"The clients under {method.label}: gaps of {len(shown):,} of "
    f"{len(clients):,}",
    section.note(
      f"A gap is known where two groups have {found['least_examples']} test "
      "examples of those that its shares are of. Clients whose interval is "
      f"above 0, of those with a known gap: {above}. One in twenty may be so "
      "by chance."
    ),
    table,
  )


def _of_row(row: Mapping[Any, Any], name: str) -> dict[str, float]:
  """Returns a client's gap; empty where it is not known."""
  ends = {"value": name, "low": f"{name}_low", "high": f"{name}_high"}
  if math.isnan(row[name]):
    return {}
  return {end: float(row[column]) for end, column in ends.items()}


def _row(
  client: str, examples: int, gaps: Mapping[str, Mapping[str, float]]
) -> list[Markup]:
  return [
    html_tables.name_cell(client),
    html_tables.cell(examples, f"{examples:,}"),
    *map(_gap_cell, gaps.values()),
  ]


def _gap_cell(gap: Mapping[str, float]) -> Markup:
  if not gap:
    return html_tables.cell(math.nan, "-")
  value, low, high = (
    sentences.percent(gap[end]) for end in ("value", "low", "high")
  )
  return html_tables.cell(
    gap["value"], value, element("small", f" {low} to {high}")
  )


def _share(share: float | None) -> Markup:
  if share is None:
    return html_tables.cell(math.nan, "-")
  return html_tables.cell(share, sentences.percent(share))
