"""Section: the command and settings of each run, to repeat it.

Settings that differ between methods come first, then those that are not the
default.
"""

import math
from collections.abc import Mapping, Sequence

from tff_fair import declared, methods, user_functions
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.markup import Child, Markup, element
from tff_fair.experiments.presenting.report.section import Section
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.run_spec import RunSpec

# Of the configuration, in the order in which they are shown.
_GROUPS = ("flags", "hparams", "versions")
_SHOWN = (("flags", "seed"), ("flags", "output_dir"), ("flags", "hparam"))
_NOTHING: tuple[object, ...] = (None, [], "")

_Settings = Mapping[tuple[str, str], object]


def build(task: TaskRuns) -> Section:
  """Returns the section: settings of methods and of all runs, then each run."""
  runs = [*task.runs, *task.unfinished]
  common = _common(runs)
  groups = [(method.label, method.runs) for method in task.methods]
  pruned = tuple(run for run in task.unfinished if run.is_pruned)
  unfinished = tuple(run for run in task.unfinished if not run.is_pruned)
  if unfinished:
    groups.append(("Unfinished", unfinished))
  if pruned:
    groups.append(("Pruned by their search", pruned))
  heads = ("Seed", "Rounds", "Duration", "Command and folder")
  return Section(
    "Runs",
    [
      _differing(groups, common),
      _titled("Settings that are not the default", _unusual(common, runs[0])),
      section.fold("All settings that the runs share", _settings(common)),
      html_tables.captioned(
        "Commands and folders",
        [
          element("th", head, scope="col", class_=_column_class(n))
          for n, head in enumerate(heads)
        ],
        [_method(label, runs) for label, runs in groups],
        class_="runs",
      ),
    ],
  )


def _titled(title: str, settings: _Settings) -> list[Markup]:
  found = _settings(settings)
  return [element("h4", title), found] if found else []


def _differing(
  groups: Sequence[tuple[str, Sequence[Run]]], common: _Settings
) -> list[Markup]:
  """Returns the settings in which each method differs from another."""
  differing = {label: _without(_common(runs), common) for label, runs in groups}
  if not any(differing.values()):
    return []
  return [
    element("h4", "Settings that differ"),
    element(
      "dl",
      [
        [element("dt", label), element("dd", _settings(settings))]
        for label, settings in differing.items()
        if settings
      ],
      class_="verdict differing",
    ),
  ]


def _unusual(settings: _Settings, run: Run) -> dict[tuple[str, str], object]:
  """Returns the settings of a run that are not the default."""
  defaults: dict[tuple[str, str], object] = {
    ("flags", name): field.default for name, field in RunSpec.fields().items()
  }
  with user_functions.reading_records():
    if methods.is_method(run.algorithm):
      fields = methods.hyperparameters(run.algorithm)
      defaults |= {("hparams", n): h.default for n, h in fields.items()}
  # What was asked for: a default may stand for a number that the data decide.
  asked = {("flags", n): v for n, v in run.config["spec"].items()}
  return {
    key: value
    for key, value in settings.items()
    if key[0] != "versions"
    and asked.get(key, value) not in (defaults.get(key), *_NOTHING)
  }


def _method(label: str, runs: Sequence[Run]) -> Markup:
  head = element("th", label, scope="rowgroup", colspan=4, class_="method")
  alike = _common(runs)
  return element("tbody", element("tr", head), [_run(r, alike) for r in runs])


def _run(run: Run, known: _Settings) -> Markup:
  """Returns the row of a run, with the settings that others do not share."""
  cells: list[Child] = [
    _rounds(run),
    _duration(run),
    [
      _command(run.config["command"]["line"]),
      element("p", "in ", element("code", str(run.path)), class_="note"),
      _settings(_without(_of(run), known)),
    ],
  ]
  return element(
    "tr",
    element("th", str(run.seeds), scope="row"),
    [
      element("td", cell, class_=_column_class(n))
      for n, cell in enumerate(cells, start=1)
    ],
  )


def _command(line: str) -> Markup:
  """Returns a command whose words do not break at a hyphen."""
  words = [[element("span", word), " "] for word in line.split(" ")]
  return element("code", words)


def _column_class(number: int) -> str | None:
  return "text" if number == 3 else None


def _settings(settings: _Settings) -> Markup | None:
  """Returns settings as a list; None if there are none."""
  return section.bullets(
    (f"{name}={_value(value)}" for (_, name), value in settings.items()),
    "settings",
  )


def _of(run: Run) -> dict[tuple[str, str], object]:
  """Returns the settings of a run that its row does not show in a column."""
  return {
    (group, name): value
    for group in _GROUPS
    for name, value in run.config[group].items()
    if (group, name) not in _SHOWN
  }


def _common(runs: Sequence[Run]) -> dict[tuple[str, str], object]:
  """Returns the settings that are the same in all runs."""
  first, *others = map(_of, runs)
  return {
    name: value
    for name, value in first.items()
    if all(name in other and other[name] == value for other in others)
  }


def _without(
  settings: _Settings, known: _Settings
) -> dict[tuple[str, str], object]:
  return {name: value for name, value in settings.items() if name not in known}


def _value(value: object) -> str:
  # Not given, or given as nothing.
  return "none" if value in _NOTHING else declared.as_text(value)


def _rounds(run: Run) -> str:
  table = run.evaluations if run.is_finished else run.rounds
  done = int(table[ROUND].max()) if len(table) else 0
  if run.is_finished:
    return f"{done:,}"
  return f"{done:,} of {run.flags['total_rounds']:,}"


def _duration(run: Run) -> str:
  try:
    table = run.timing
  except RunError:
    return "unknown"
  columns = [name for name in table if str(name).endswith("_seconds")]
  total = float(table[columns].sum().sum())
  if not columns or not math.isfinite(total):
    return "unknown"
  seconds = round(total)
  hours, minutes = divmod(round(seconds / 60), 60)
  if hours:
    return f"{hours} h {minutes} min"
  return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds} s"
