"""Section: groups of people inside clients, beside fairness between clients."""

import math
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments import group_fairness
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import (
  final_measures,
  html_tables,
  section,
)
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import Run

_TITLE = "Groups inside clients"
_SHARES = {
  "accuracy": "Right",
  "positive_rate": "Positive predictions",
  "true_positive_rate": "Of the positive",
  "false_positive_rate": "Of the negative",
}


def build(task: TaskRuns) -> list[Section]:
  """Returns the section, if runs know groups."""
  methods = [m for m in task.methods if all(map(_found, m.runs))]
  if not methods:
    return []
  return [
    Section(
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
        element(
          "ul",
          [
            element("li", f"{method.label}, seed {run.seeds}: {sentence}")
            for method in methods
            for run in method.runs[:1]
            for sentence in group_fairness.sentences(run.summary or {})
          ],
        ),
        *(_of_groups(method) for method in methods),
      ],
    )
  ]


def _found(run: Run) -> Mapping[str, Any]:
  return run.of_summary(group_fairness.KEY)


def _gap(run: Run, name: str) -> float:
  return float(_found(run)["gaps"].get(name, {}).get("value", math.nan))


def _of_methods(task: TaskRuns, methods: list[MethodRuns]) -> Markup:
  columns = [
    html_tables.column(
      task.measures[name],
      [final_measures.of_method(task, m, name) for m in methods],
    )
    for name in ("mean", "std", "worst_10")
  ]
  for name, title in group_fairness.TITLES.items():
    measure = Measure(title[0].upper() + title[1:], False, 100.0, 1)
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


def _tension(task: TaskRuns, methods: list[MethodRuns]) -> Markup | None:
  """Returns where fairness to clients and to groups pull against each other."""
  first, *others = methods
  told = []
  for method in others:
    worst, before = (
      final_measures.of_method(task, m, "worst_10").mean
      for m in (method, first)
    )
    changes = {
      title: _mean_gap(method, name) - _mean_gap(first, name)
      for name, title in group_fairness.TITLES.items()
    }
    wider = [title for title, change in changes.items() if change > 0]
    narrower = [title for title, change in changes.items() if change < 0]
    if wider and task.score.is_better(worst, before):
      told.append(
        f"{method.label} has a better worst 10 % of clients than "
        f"{first.label}, and wider gaps of {', '.join(wider)}."
      )
    if narrower and task.score.is_better(before, worst):
      told.append(
        f"{method.label} has a less good worst 10 % of clients than "
        f"{first.label}, and narrower gaps of {', '.join(narrower)}."
      )
  if not told:
    return None
  return element("ul", [element("li", sentence) for sentence in told])


def _mean_gap(method: MethodRuns, name: str) -> float:
  return sum(_gap(run, name) for run in method.runs) / len(method.runs)


def _of_groups(method: MethodRuns) -> Markup:
  """Returns the shares of each group in a method's first run."""
  run = method.runs[0]
  groups = _found(run)["groups"]
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


def _share(share: float | None) -> Markup:
  if share is None:
    return html_tables.cell(math.nan, "-")
  return html_tables.cell(share, group_fairness.percent(share))
