"""Section: how tff-fair-choose selected the method that it recommends."""

import pathlib
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.analysis.measures import (
  Value,
  difference_text,
  value_text,
)
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.sweeps import choosing
from tff_fair.files import parsing

_TITLE = "The choice"
_ENDS = ("", "_low", "_high")  # Suffixes of a difference's columns.


def build(task: TaskRuns) -> section.Section:
  """Returns the section on choices, empty if no folder has a choice.json."""
  folders = dict.fromkeys(run.path.parent for run in task.runs)
  choices = [
    _read(task, file)
    for file in (folder / choosing.CHOICE_FILE for folder in folders)
    if file.exists()
  ]
  if not choices:
    return section.Section(_TITLE)
  return section.build(_TITLE, "choice", task, choices=choices)


def _read(task: TaskRuns, file: pathlib.Path) -> dict[str, Any] | str:
  """Returns the template values of a choice, or why `file` cannot be read."""
  try:
    content = parsing.null_to_nan(parsing.parse_json(file.read_bytes()))
    return _choice(task, content)
  except (OSError, LookupError, TypeError, ValueError) as error:
    return f"{file}: not shown, as it cannot be read ({error})."


def _choice(task: TaskRuns, found: Mapping[str, Any]) -> dict[str, Any]:
  criterion = found["criterion"]
  shown = {
    name: group_measures.find(name, task.score) for name in (criterion, "mean")
  }
  measure = shown[criterion]
  titles = (m.title for m in shown.values())
  differences = [["Finalist", *titles, "Largest loss of a client"]]
  for row in found["confirmation"]:
    changes = (
      difference_text(m, *(row[f"{n}_difference{end}"] for end in _ENDS))
      for n, m in shown.items()
    )
    finalist = f"{row['method']}, {row['settings']}"
    loss = value_text(measure, Value(row["largest_loss"], None))
    differences.append([finalist, *changes, loss])
  tried = [["Stage and setting", "Seeds", measure.title]]
  for row in found["path"]:
    setting = f"{row['stage']}: {row['method']}, {row['settings']}"
    value = value_text(measure, Value(row["value"], None))
    tried.append([setting, str(row["seeds"]), value])
  return {
    **{name: found[name] for name in ("method", "is_fair_method", "num_runs")},
    "order": [row["algorithm"] for row in found["order"]],
    "left_out": dict(found["left_out"]),
    "words": measure.words,
    "differences": html_tables.of_text(
      "Against the better FedAvg, on test data and fresh seeds", differences
    ),
    "tried": html_tables.of_text("Each setting, on validation data", tried),
  }
