"""Builds grids of settings: a run for every combination of values."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import tasks
from tff_fair import methods, spelling
from tff_fair.declared import FieldError
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.settings import RunSettings

_T = TypeVar("_T")
_Run = TypeVar("_Run", bound=RunSettings)
# This name is both a setting and a task option. In a grid, it means the option
# if all tasks accept all its values.
_MODEL = "model"


def product(grid: Mapping[str, Iterable[_T]]) -> Iterator[dict[str, _T]]:
  """Yields every combination of values; the last name varies fastest."""
  for values in itertools.product(*grid.values()):
    yield dict(zip(grid, values, strict=True))


def vary(spec: _Run, values: Mapping[str, object]) -> list[_Run]:
  """Returns the specs of a grid; see `RunSpec.vary`."""
  found = {name: choices(name, value) for name, value in values.items()}
  algorithms = [
    methods.canonical_name(str(name))
    for name in found.get("algorithm", [spec.algorithm])
  ]
  known_tasks = found.get("task", [spec.task])
  grid = {
    flat_name(name, spec, chosen, algorithms, known_tasks): chosen
    for name, chosen in found.items()
  }
  return list(dict.fromkeys(replace_settings(spec, v) for v in product(grid)))


def choices(name: str, value: object) -> list[Any]:
  """Returns an argument of `vary` as a list of values."""
  # A string, a range such as (5, 15) and a mapping are single values.
  if isinstance(value, str | tuple | Mapping) or not isinstance(
    value, Iterable
  ):
    return [value]
  if not (found := list(value)):
    raise FieldError(name, "expected at least one value, found none.")
  return found


def flat_name(
  name: str,
  spec: RunSettings,
  values: Iterable[object] = (),
  algorithms: Iterable[str] | None = None,
  known_tasks: Iterable[str] | None = None,
) -> str:
  """Returns the flat name of a `vary` argument, such as "hparam.gamma".

  `values` are the argument's values; `algorithms` and `known_tasks` are the
  methods and tasks of the grid, by default those of `spec`.
  """
  algorithms = algorithms or [spec.algorithm]
  known_tasks = known_tasks or [spec.task]
  hparams = {
    hparam
    for algorithm in algorithms
    if methods.is_method(algorithm)
    for hparam in methods.hyperparameters(algorithm)
  }
  options = {
    option
    for task in known_tasks
    if tasks.is_task(task)
    for option in tasks.option_names(task)
  }
  fields = {*spec.fields(), "hparams", "task_options"}
  if name == _MODEL and all(
    _is_option(task, name, value) for task in known_tasks for value in values
  ):
    return f"{spec_text.TASK_OPTION}{name}"
  if name in fields:
    return name
  for prefix, valid in (
    (spec_text.HPARAM, hparams),
    (spec_text.TASK_OPTION, options),
  ):
    if name.removeprefix(prefix) in valid:
      return f"{prefix}{name.removeprefix(prefix)}"
  advice = spelling.suggest(
    name,
    [*fields, *hparams, *options],
    f"valid are the fields {', '.join(sorted(fields))}; the hyperparameters "
    f"{', '.join(sorted(hparams)) or '(none)'}; and the task options "
    f"{', '.join(sorted(options)) or '(none)'}.",
  )
  raise FieldError(name, f"there is no such setting; {advice}")


def _is_option(task: str, name: str, value: object) -> bool:
  """Returns whether a task's option accepts a value."""
  try:
    tasks.check_options(task, {name: value})
  except ValueError:
    return False
  return True


def replace_settings(spec: _Run, values: Mapping[str, Any]) -> _Run:
  """Returns a spec in which settings, given by flat name, are replaced."""
  fields = {n: v for n, v in values.items() if "." not in n}
  algorithm = methods.canonical_name(
    str(fields.get("algorithm", spec.algorithm))
  )
  hparams = {**fields.pop("hparams", spec.hparams)}
  options = {**fields.pop("task_options", spec.task_options)}
  for name, value in values.items():
    if name.startswith(spec_text.HPARAM):
      hparams[name.removeprefix(spec_text.HPARAM)] = value
    elif name.startswith(spec_text.TASK_OPTION):
      options[name.removeprefix(spec_text.TASK_OPTION)] = value
  if "algorithm" in values and methods.is_method(algorithm):
    # Drop hyperparameters that the method does not have.
    valid = methods.hyperparameters(algorithm)
    hparams = {name: value for name, value in hparams.items() if name in valid}
  return spec.replace(**fields, hparams=hparams, task_options=options)
