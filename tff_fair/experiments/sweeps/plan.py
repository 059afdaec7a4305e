"""Plans a sweep's runs: all combinations of its settings, after checks.

A run's folder is named after its method and the settings that differ between
runs, so that a repeated sweep finds its runs; `runner.Runner.states` checks
whether the folders hold the same runs.
"""

import collections
import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tff_fair import declared, methods, spelling
from tff_fair.declared import FieldError, Value
from tff_fair.experiments import progress
from tff_fair.experiments.analysis import run_groups
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import grids, seeds, spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.settings import federation
from tff_fair.experiments.sweeps.setting_tables import Grid, Range
from tff_fair.experiments.sweeps.sweep_file import Sweep, SweptMethod

# Names and values of a run's settings, which are equal only for identical runs.
Identity = tuple[tuple[str, ...], tuple[Value, ...]]
_Hyperparameters = Mapping[str, declared.Field]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
  """A run that a sweep trains in the folder `name`."""

  name: str
  method: str
  spec: RunSpec


def expand(sweep: Sweep) -> list[PlannedRun]:
  """Returns a sweep's runs, sorted by seeds, then in the order of methods."""
  hparams = hyperparameters(sweep)
  planned: dict[Identity, tuple[SweptMethod, PlannedRun]] = {}
  choices = [_choices(sweep, m, hparams[m.algorithm]) for m in sweep.methods]
  total = sum(math.prod(map(len, grid.values())) for grid in choices)
  runs = (
    (method, make_run(sweep, method, settings))
    for method, grid in zip(sweep.methods, choices, strict=True)
    for settings in grids.product(grid)
  )
  for method, run in progress.track(runs, total, "planning runs"):
    key = _identity(run.spec)
    if key not in planned:
      planned[key] = method, run
      continue
    other, first = planned[key]
    if run.method == first.method and any(
      method.grid.get(name) != other.grid.get(name) for name in sweep.final
    ):
      # The runs differed until a final setting replaced one of their values.
      continue
    raise RunError(
      f"{method.place}: {run.name} is the same run as {first.name} of "
      f"{other.place}; leave one of them out."
    )
  with_names = _with_distinct_names([run for _, run in planned.values()])
  return sorted(with_names, key=lambda run: run.spec.seeds)


def hyperparameters(sweep: Sweep) -> dict[str, _Hyperparameters]:
  """Returns the hyperparameters that each algorithm of a sweep has.

  Raises a `RunError` if the sweep names unknown algorithms or hyperparameters.
  """
  found: dict[str, _Hyperparameters] = {}
  for method in sweep.methods:
    name = method.algorithm
    if not methods.is_method(name):
      raise RunError(f"{method.place}: {methods.unknown_message(name)}")
    found[name] = methods.hyperparameters(name)
  known = sorted({name for own in found.values() for name in own})
  for name, setting in (*sweep.common.items(), *sweep.final.items()):
    bare = name.removeprefix(spec_text.HPARAM)
    if bare != name and bare not in known:
      raise RunError(
        f"{setting.place}: {name} is not a hyperparameter of "
        f"{', '.join(found)}; {spelling.advice(bare, known, 'hyperparameters')}"
      )
  return found


def from_specs(specs: Sequence[RunSpec]) -> list[PlannedRun]:
  """Returns a run for each spec, in order; identical runs share a name."""
  different: dict[Identity, RunSpec] = {}
  for spec in specs:
    different.setdefault(_identity(spec), spec)
  names = _folder_names([*different.values()])
  runs = [
    PlannedRun(name, spec.algorithm, spec)
    for name, spec in zip(names, different.values(), strict=True)
  ]
  found = dict(zip(different, _with_distinct_names(runs), strict=True))
  return [found[_identity(spec)] for spec in specs]


def _identity(spec: RunSpec) -> Identity:
  # Not a set of pairs, which takes too much memory for 100,000 runs.
  settings = spec.effective()
  names = tuple(sorted(settings))
  return names, tuple(settings[name] for name in names)


def _with_distinct_names(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
  # Two runs may get the same name if a hyperparameter and a task option do.
  counts = collections.Counter(run.name for run in runs)
  return [
    dataclasses.replace(
      run, name=_with_digest(run.name, _describe_changes(run.spec))
    )
    if counts[run.name] > 1
    else run
    for run in runs
  ]


def _describe_changes(spec: RunSpec) -> str:
  """Returns the settings that differ from the defaults, as text for a digest.

  The text omits defaults, so that settings added in later versions do not
  change it.
  """
  usual = RunSpec(algorithm=spec.algorithm, task=spec.task)
  changed = usual.differences(spec).items()
  return repr([spec.task, sorted((name, now) for name, (_, now) in changed)])


def method_grid(
  sweep: Sweep, method: SweptMethod, hparams: Iterable[str]
) -> Grid:
  """Returns the settings that apply to a method, ordered as in folder names."""

  def own(grid: Grid) -> Grid:
    # A hyperparameter for all methods applies to the methods that have it.
    return {
      name: setting
      for name, setting in grid.items()
      if not name.startswith(spec_text.HPARAM)
      or name.removeprefix(spec_text.HPARAM) in hparams
    }

  grid = {**own(sweep.common), **method.grid, **own(sweep.final)}
  return {name: grid[name] for name in _sort_names(grid)}


def is_problem_setting(name: str) -> bool:
  """Returns whether a setting changes the task, the data or a seed."""
  return name in _PROBLEM_SETTINGS or name.startswith(spec_text.TASK_OPTION)


_PROBLEM_SETTINGS = ("task", "data_dir", *seeds.NAMES)


def make_run(
  sweep: Sweep, method: SweptMethod, settings: Mapping[str, Value]
) -> PlannedRun:
  """Returns the run of a method with `settings`, one value for each setting."""
  # Folder names leave out settings that have the same value in all runs.
  with_names = method.grid.keys() | sweep.varying
  varying = {
    name: value for name, value in settings.items() if name in with_names
  }
  varying.setdefault("seed", settings.get("seed", 0))
  return PlannedRun(
    name=folder_name(method.algorithm, varying),
    method=method.name,
    spec=_spec_of(sweep, method, settings),
  )


def _choices(
  sweep: Sweep, method: SweptMethod, hparams: _Hyperparameters
) -> dict[str, Sequence[Value]]:
  """Returns a method's values by setting; raises `RunError` for a range."""
  choices: dict[str, Sequence[Value]] = {}
  for name, setting in method_grid(sweep, method, hparams).items():
    if isinstance(setting.values, Range):
      raise RunError(
        f"{setting.place}: {name}={setting.values}: a range needs a search; "
        "give its number of trials, such as --trials=30."
      )
    choices[name] = setting.values
  return choices


def _spec_of(
  sweep: Sweep, method: SweptMethod, settings: Mapping[str, Value]
) -> RunSpec:
  """Returns the spec of a run; errors name the place of the wrong setting."""
  try:
    spec = grids.replace_settings(
      _default_spec(method.algorithm),
      _parse_settings(method.algorithm, settings),
    )
    # `methods.get` imports TensorFlow, and few sweeps set `aggregation`.
    if spec.aggregation is not None:
      valid = methods.get(spec.algorithm).aggregations
      if spec.aggregation not in valid:
        raise FieldError(
          "aggregation",
          f"not possible for {spec.algorithm}; valid: {', '.join(valid)}.",
          value=spec.aggregation,
        )
  except FieldError as error:
    name, text = spec_text.flat_name(error), spec_text.as_setting(error)
    place = method.place
    for grid in (sweep.common, method.grid, sweep.final):
      place = grid[name].place if name in grid else place
    raise RunError(f"{place}: {text}: {error.problem}") from error
  return spec


@functools.cache
def _default_spec(algorithm: str) -> RunSpec:
  return RunSpec(algorithm=algorithm)


def _parse_settings(
  algorithm: str, settings: Mapping[str, Value]
) -> dict[str, Value]:
  """Returns a run's settings; strings are parsed to the settings' types."""
  fields = RunSpec.fields()
  task = str(settings.get("task", fields["task"].default))
  found = dict(settings)
  for name, text in found.items():
    if not isinstance(text, str):
      continue
    _, _, key = name.partition(".")
    given = [f"{key}={text}"]
    if name in fields:
      found[name] = fields[name].parse(text)
    elif name.startswith(spec_text.HPARAM):
      found[name] = spec_text.parse_hparams(algorithm, given)[key]
    else:
      found[name] = spec_text.parse_task_options(task, given).get(key, text)
  return found


_MAX_NAME_LENGTH = 150  # The longest name of a run's folder, without a digest.
_SEED, _INTERVAL = "seed", "rounds_per_evaluation"


def folder_name(algorithm: str, varying: Mapping[str, Value]) -> str:
  """Returns the name of a run's folder: the method and the settings `varying`.

  For example "adafed-gamma=0.1-batch_size=8-seed=0".
  """
  words = [
    f"{run_groups.short_name(name)}={declared.as_text(varying[name])}"
    for name in _sort_names(varying)
  ]
  text = "-".join([algorithm, *words])
  name = re.sub(r"[^A-Za-z0-9._=+-]+", "_", text)
  if name == text and len(name) <= _MAX_NAME_LENGTH:
    return name
  # Changed or cut names may be equal, so add a digest of the whole text.
  return _with_digest(name[:_MAX_NAME_LENGTH], text)


def _folder_names(specs: Sequence[RunSpec]) -> list[str]:
  """Returns the runs' folder names; they contain the settings that differ."""
  values: dict[tuple[str, str], set[Value]] = {}
  for spec in specs:
    for name, value in _settings_of(spec).items():
      values.setdefault((_owner(spec, name), name), set()).add(value)
  return [
    folder_name(
      spec.algorithm,
      {
        name: value
        for name, value in _settings_of(spec).items()
        if name == _SEED or len(values[_owner(spec, name), name]) > 1
      },
    )
    for spec in specs
  ]


def _sort_names(names: Iterable[str]) -> list[str]:
  """Sorts flat names of settings into the order that folder names have."""
  return sorted(
    names,
    key=lambda name: (
      name == _SEED,
      not name.startswith(spec_text.HPARAM),
      not name.startswith(spec_text.TASK_OPTION),
    ),
  )


def _with_digest(name: str, content: str) -> str:
  """Returns a name with a digest of `content`, which makes the name unique."""
  return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _settings_of(spec: RunSpec) -> dict[str, Value]:
  """Returns all settings that affect a run, except the method, by flat name."""
  found = {
    **spec.effective(),
    # These settings may be None, and then depend on the number of rounds or on
    # `seed`.
    _INTERVAL: spec.rounds_per_evaluation or federation.USUAL_INTERVAL,
    **{name: getattr(spec, name) for name in seeds.NAMES},
  }
  del found["algorithm"]
  return found


def _owner(spec: RunSpec, name: str) -> str:
  """Returns the method or task that a setting belongs to; "" for all runs."""
  if name.startswith(spec_text.HPARAM):
    return spec.algorithm
  return spec.task if name.startswith(spec_text.TASK_OPTION) else ""
