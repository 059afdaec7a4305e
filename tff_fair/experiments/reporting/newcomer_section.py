"""Section: clients that took no part in training, or joined late."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_fair.experiments import newcomers
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.reporting import html_tables, section
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import Run

_TITLE = "Clients that come later"


def build(task: TaskRuns) -> list[Section]:
  """Returns the section, if a run has such clients."""
  unseen, late = (
    [
      method
      for method in task.methods
      if all(_found(run, key) for run in method.runs)
    ]
    for key in (newcomers.UNSEEN, newcomers.LATE)
  )
  if not unseen and not late:
    return []
  return [
    Section(
      _TITLE,
      [
        section.note(
          "All other numbers of the page are of clients that may take part in "
          "training. With several seeds, sentences are of the first."
        ),
        _of_unseen(task, unseen) if unseen else None,
        _of_late(task, late) if late else None,
        element(
          "ul",
          [
            element("li", f"{method.label}: {sentence}")
            for method in task.methods
            for sentence in newcomers.sentences(
              method.runs[0].summary or {}, task.score
            )
          ],
        ),
      ],
    )
  ]


def _found(run: Run, key: str) -> Mapping[str, Any]:
  return (run.summary or {}).get(key) or {}


def _of_unseen(task: TaskRuns, methods: Sequence[MethodRuns]) -> Markup:
  of_score = task.measures["mean"]

  def column(title: str, names: Sequence[str]) -> html_tables.TableColumn:
    return html_tables.column(
      of_score._replace(title=title),
      [
        measures.over_seeds(of_score, [_value(run, *names) for run in m.runs])
        for m in methods
      ],
    )

  seen = f"test_{task.score.name}"
  return html_tables.draw(
    f"Test {task.score.noun}{task.score.in_brackets} of clients that took part "
    "in training, and of those that did not",
    methods,
    [
      column("Mean, took part", (seen, "mean")),
      column("Mean, did not", (newcomers.UNSEEN, "mean")),
      column("Worst, did not", (newcomers.UNSEEN, "worst")),
      column("80 % get", (newcomers.UNSEEN, "bound")),
    ],
  )


def _of_late(task: TaskRuns, methods: Sequence[MethodRuns]) -> Markup:
  of_score = task.measures["mean"]
  columns = []
  for group, whose in (("joining", "Late"), ("others", "Others")):
    for when in ("before", "after"):
      columns.append(
        html_tables.column(
          of_score._replace(title=f"{whose}, {when}"),
          [
            measures.over_seeds(
              of_score,
              [_value(run, newcomers.LATE, group, when) for run in m.runs],
            )
            for m in methods
          ],
        )
      )
  return html_tables.draw(
    f"Mean test {task.score.noun}{task.score.in_brackets} of clients that "
    "joined late and of the others, before they joined and after the last "
    "round",
    methods,
    columns,
  )


def _value(run: Run, *names: str) -> float:
  """Returns a number of a run's summary; NaN where it has none."""
  found: Any = run.summary
  for name in names:
    found = found.get(name, math.nan)
  return float(found)
