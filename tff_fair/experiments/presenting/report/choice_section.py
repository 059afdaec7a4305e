"""Section: how tff-fair-choose selected the method that it recommends."""

import math
from collections.abc import Mapping
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
  titles = (m.title for m in shown.values())
  differences = [["Finalist", *titles, "Largest loss of a client"]]
  for row in found["confirmation"]:
    changes = (_difference(row, name, m) for name, m in shown.items())
    finalist = f"{row['method']}, {row['settings']}"
    loss = _number(measure, row["largest_loss"])
    differences.append([finalist, *changes, loss])
  tried = [["Stage and setting", "Seeds", measure.title]]
  for row in found["path"]:
    setting = f"{row['stage']}: {row['method']}, {row['settings']}"
    value = _number(measure, row["value"])
    tried.append([setting, str(row["seeds"]), value])
  return {
    **found,
    "words": measure.words,
    "differences": html_tables.of_text(
      "Against the better FedAvg, on test data and fresh seeds", differences
    ),
    "tried": html_tables.of_text("Each setting, on validation data", tried),
  }


def _difference(row: Mapping[str, Any], name: str, measure: Measure) -> str:
  """Returns a difference and its interval, such as "+6.1 [+2.0, +10.2]"."""
  signed = measure._replace(is_signed=True)
  estimate, low, high = (
    _number(signed, row[f"{name}_difference{part}"])
    for part in ("", "_low", "_high")
  )
  return f"{estimate} [{low}, {high}]"


def _number(measure: Measure, value: float | None) -> str:
  """Returns a number as text; None stands for NaN, as in JSON."""
  return value_text(measure, Value(math.nan if value is None else value, None))
