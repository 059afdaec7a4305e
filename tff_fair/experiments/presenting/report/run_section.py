"""Section: the command and settings with which each run can be repeated."""

from collections.abc import Mapping, Sequence
from typing import Any

from tff_fair import declared, methods, user_functions
from tff_fair.experiments import number_text
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report import section
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec

_NOTHING: tuple[object, ...] = (None, [], "")

_Settings = Mapping[tuple[str, str], object]


def build(task: TaskRuns) -> section.Section:
  """Returns the section: settings of all runs, of methods, and of each run."""
  runs = [*task.runs, *task.unfinished]
  common = _common(runs)
  pruned = [run for run in task.unfinished if run.is_pruned]
  others = [run for run in task.unfinished if not run.is_pruned]
  all_groups = [
    *((method.label, method.runs) for method in task.methods),
    ("Unfinished", others),
    ("Pruned by their search", pruned),
  ]
  groups = [(label, found) for label, found in all_groups if found]
  differing = [
    (label, _texts(_exclude(_common(found), common))) for label, found in groups
  ]
  return section.build(
    "Runs",
    "runs",
    task,
    differing=[(label, texts) for label, texts in differing if texts],
    unusual=_texts(_unusual(common, runs[0])),
    common=_texts(common),
    groups=[
      (label, [_run(run, _common(found)) for run in found])
      for label, found in groups
    ],
  )


def _unusual(settings: _Settings, run: Run) -> dict[tuple[str, str], object]:
  """Returns those of `settings` that differ from the defaults for `run`."""
  defaults: dict[tuple[str, str], object] = {
    ("flags", name): field.default for name, field in RunSpec.fields().items()
  }
  with user_functions.reading_records():
    if methods.is_method(run.algorithm):
      fields = methods.hyperparameters(run.algorithm)
      defaults |= {("hparams", n): h.default for n, h in fields.items()}
  # Compare requested values, since data may determine the value of a default.
  asked = {("flags", n): v for n, v in run.config["spec"].items()}
  return {
    key: value
    for key, value in settings.items()
    if key[0] != "versions"
    and asked.get(key, value) not in (defaults.get(key), *_NOTHING)
  }


def _run(run: Run, known: _Settings) -> dict[str, Any]:
  """Returns the row of a run, with the settings that are not in `known`."""
  return {
    "seed": run.seeds,
    "rounds": _rounds(run),
    "duration": _duration(run),
    "words": run.config["command"]["line"].split(" "),
    "path": run.path,
    "settings": _texts(_exclude(_settings_by_group(run), known)),
  }


def _texts(settings: _Settings) -> list[str]:
  return [f"{name}={_value(value)}" for (_, name), value in settings.items()]


def _settings_by_group(run: Run) -> dict[tuple[str, str], object]:
  """Returns a run's settings by (group, name), without the seed."""
  flags = {
    spec_text.FLAG_NAMES.get(name, name): spec_text.assignments(value)
    if isinstance(value, Mapping)
    else value
    for name, value in run.flags.items()
    if name not in ("seed", "hparams")
  }
  groups = {
    "flags": flags,
    "hparams": run.flags["hparams"],
    "versions": run.config["versions"],
  }
  return {
    (group, name): value
    for group, values in groups.items()
    for name, value in values.items()
  }


def _common(runs: Sequence[Run]) -> dict[tuple[str, str], object]:
  first, *others = map(_settings_by_group, runs)
  return {
    name: value
    for name, value in first.items()
    if all(name in other and other[name] == value for other in others)
  }


def _exclude(
  settings: _Settings, known: _Settings
) -> dict[tuple[str, str], object]:
  return {name: value for name, value in settings.items() if name not in known}


def _value(value: object) -> str:
  return "none" if value in _NOTHING else declared.as_text(value)


def _rounds(run: Run) -> str:
  table = run.evaluations if run.is_finished else run.rounds
  done = int(table[ROUND].max()) if len(table) else 0
  if run.is_finished:
    return f"{done:,}"
  return f"{done:,} of {run.flags['total_rounds']:,}"


def _duration(run: Run) -> str:
  try:
    seconds = run.timing.filter(regex="_seconds$")
  except RunError:
    return "unknown"
  if seconds.columns.empty:
    return "unknown"
  return number_text.duration(float(seconds.sum().sum()))
