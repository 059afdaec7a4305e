"""Section: what clients gain from joining, against training alone."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tff_fair.experiments import joining
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import html_tables, section
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import Run

_TITLE = "Is joining worth it"
_MAX_CLIENTS = 100
_NUMBERS = {
  "gaining": "Gain",
  "losing": "Lose",
  "undecided": "Cannot be told",
}


def build(task: TaskRuns) -> Section:
  """Returns the section: a table of methods, and one of clients for each."""
  methods = [method for method in task.methods if all(map(_found, method.runs))]
  if not methods:
    return Section(_TITLE, absence="no run has a baseline without a federation")
  others = [method for method in task.methods if method not in methods]
  return Section(
    _TITLE,
    [
      section.note(
        f"Mean test {task.score.noun} over clients{task.score.in_brackets} in "
        "the federation, of each client that trains alone, and of one model on "
        "all data in one place. A client gains or loses where the two models "
        "differ on its own test examples, by a paired test with Holm’s "
        "correction for the clients; the others cannot be told."
      ),
      _of_methods(task, methods),
      *(_of_clients(task, method) for method in methods),
      section.without(others, "they have no baseline"),
    ],
  )


def _found(run: Run) -> Mapping[str, Any]:
  """Returns what joining brings in a run; empty if nothing tells it."""
  return (run.summary or {}).get(joining.KEY, {})


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
    **{
      name: Measure(title, name == "gaining", 1.0, 1)
      for name, title in _NUMBERS.items()
    },
  }
  columns = [
    html_tables.column(
      measure,
      [
        measures.over_seeds(
          measure, [_found(run).get(name, math.nan) for run in method.runs]
        )
        for method in methods
      ],
    )
    for name, measure in shown.items()
    if any(name in _found(run) for method in methods for run in method.runs)
  ]
  caption = (
    f"Mean test {task.score.noun} over clients{task.score.in_brackets}, and "
    "numbers of clients"
  )
  return html_tables.draw(caption, methods, columns)


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
  kept = {column: head for column, head in names.items() if column in clients}
  has_gain = joining.GAIN in clients
  heads = [
    html_tables.sorting_head("Client", "text", class_="name"),
    *(
      html_tables.sorting_head(
        head, html_tables.first_order(task.measures["mean"])
      )
      for head in kept.values()
    ),
  ]
  if has_gain:
    heads += [
      html_tables.sorting_head("Gain", "descending"),
      html_tables.sorting_head("95 % interval", "descending"),
      html_tables.sorting_head("p", "ascending"),
    ]
  table = html_tables.captioned(
    f"Clients of {method.label}, seed {method.runs[0].seeds}: test "
    f"{score.noun}{score.in_brackets}",
    heads,
    element(
      "tbody",
      [
        _row(task, row, [*kept], has_gain=has_gain)
        for row in clients.to_dict("records")
      ],
    ),
    class_="sortable",
  )
  return section.fold(f"The clients of {method.label}", table)


def _row(
  task: TaskRuns, row: Mapping[Any, Any], columns: list[str], *, has_gain: bool
) -> Markup:
  score, name = task.score, task.clients.full(int(row["client_id"]))
  cells = [_number(row[c], score.number(row[c])) for c in columns]
  if has_gain:
    gain, low, high, p_value = (row[c] for c in joining.COLUMNS)
    cells += [
      _number(gain, f"{score.scale * gain:+.{score.digits}f}"),
      _number(low, f"{score.number(low)} to {score.number(high)}"),
      _number(p_value, f"{p_value:.3g}"),
    ]
  return element(
    "tr",
    html_tables.name_cell(name),
    cells,
  )


def _number(value: float, text: str) -> Markup:
  is_known = not pd.isna(value)
  return html_tables.cell(value, text.replace("-", "−") if is_known else "-")
