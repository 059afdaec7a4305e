"""Section: how tff-fair-choose selected the method that it recommends."""

from collections.abc import Mapping, Sequence
from typing import Any

from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.analysis.measures import Measure, Value, value_text
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.sweeps import choosing
from tff_fair.files import parsing

_TITLE = "The choice"


def build(task: TaskRuns) -> section.Section:
  """Returns the section, which is empty without a choice.json of these runs."""
  folders = dict.fromkeys(run.path.parent for run in task.runs)
  choices = [
    _choice(task, parsing.parse_json(file.read_bytes()))
    for file in (folder / choosing.CHOICE_FILE for folder in folders)
    if file.exists()
  ]
  if not choices:
    return section.Section(_TITLE)
  return section.build(_TITLE, "choice", task, choices=choices)


def _choice(task: TaskRuns, found: Mapping[str, Any]) -> dict[str, Any]:
  criterion = found["criterion"]
  shown = {
    name: group_measures.find(name, task.score) for name in (criterion, "mean")
  }
  measure = shown[criterion]
  differences = [
    [
      f"{row['method']}, {row['settings']}",
      *(_difference(row, name, m) for name, m in shown.items()),
      _number(measure, row["largest_loss"]),
    ]
    for row in found["confirmation"]
  ]
  tried = [
    [
      f"{row['stage']}: {row['method']}, {row['settings']}",
      f"{row['seeds']}",
      _number(measure, row["value"]),
    ]
    for row in found["path"]
  ]
  return {
    **found,
    "words": measure.words,
    "differences": html_tables.of_text(
      "Against the better FedAvg, on test data and fresh seeds",
      [
        [
          "Finalist",
          *(m.title for m in shown.values()),
          "Largest loss of a client",
        ],
        *differences,
      ],
    ),
    "tried": html_tables.of_text(
      "Each setting, on validation data",
      [["Stage and setting", "Seeds", measure.title], *tried],
    ),
  }


def _difference(row: Mapping[str, Any], name: str, measure: Measure) -> str:
  """Returns a difference and its interval, such as "+6.1 [+2.0, +10.2]"."""
  signed = measure._replace(is_signed=True)
  shown: Sequence[str] = [
    _number(signed, row[f"{name}_difference{part}"])
    for part in ("", "_low", "_high")
  ]
  return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _number(measure: Measure, value: float | None) -> str:
  """Returns a number as text; None, which JSON has for NaN, is valid."""
  return value_text(
    measure, Value(float("nan") if value is None else value, None)
  )
