"""Formats settings of runs as flags, as TOML and in errors, and parses them."""

import json
import math
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import tasks
from tff_fair import declared, methods
from tff_fair.declared import FieldError, Value
from tff_fair.experiments.spec.settings import RunSettings
from tff_fair.files import parsing

# Prefixes of hyperparameters and task options in flat names.
HPARAM, TASK_OPTION = "hparam.", "task_option."
# For each mapping in `RunSpec`: the prefix in flat names, and the flag's name.
PREFIXES = {"hparams": HPARAM, "task_options": TASK_OPTION}
FLAG_NAMES = {field: prefix[:-1] for field, prefix in PREFIXES.items()}


def flag(name: str, text: str) -> str:
  """Returns a setting, given by flat name, as a command-line flag."""
  for prefix in PREFIXES.values():
    if name.startswith(prefix):
      return f"--{prefix[:-1]}={name.removeprefix(prefix)}={text}"
  return f"--{name}={text}"


def assignments(values: Mapping[str, object]) -> list[str]:
  """Returns the entries of a mapping as strings of the form name=value."""
  return [f"{name}={declared.as_text(v)}" for name, v in values.items()]


def parse_hparams(algorithm: str, texts: Iterable[str]) -> dict[str, Value]:
  """Parses a method's hyperparameters from strings of the form name=value."""
  values: dict[str, Any] = {}
  algorithm = methods.canonical_name(algorithm)
  if not methods.is_method(algorithm):
    return values
  valid = methods.hyperparameters(algorithm)
  try:
    for name, text in declared.assignments(texts).items():
      check_hparam_name(algorithm, name, text)
      values[name] = declared.parse(name, valid[name].annotation, text)
  except FieldError as error:
    if error.key is not None:
      raise
    raise error.within("hparams") from error
  return values


def check_hparam_name(algorithm: str, name: str, value: object) -> None:
  """Raises a `FieldError` unless the method has a hyperparameter `name`."""
  valid = methods.hyperparameters(algorithm)
  if name not in valid:
    known = assignments({n: h.default for n, h in valid.items()})
    raise FieldError(
      "hparams",
      f"unknown hyperparameter of {algorithm}; valid, with defaults: "
      f"{', '.join(known) or 'none'}.",
      key=name,
      value=value,
    )


def parse_task_options(task: str, texts: Iterable[str]) -> dict[str, Value]:
  """Parses a task's options from strings of the form name=value."""
  if not tasks.is_task(task):
    return {}
  try:
    return tasks.parse_options(task, texts)
  except FieldError as error:
    raise error.within("task_options") from error
  except ValueError as error:
    raise FieldError("task_options", str(error)) from error


# Flags that do not define an experiment: runs that differ only in these flags
# repeat the same experiment.
REPETITIONS = ("seed", "model_seed", "total_rounds")


def command(
  spec: RunSettings,
  output_dir: str | None = None,
  options: Mapping[str, object] | None = None,
) -> str:
  """Returns the command line of a run: non-default settings, then `options`."""
  values = non_default_texts(spec)
  if values.keys() <= set(REPETITIONS):
    # Without further flags, binaries.train would run its default run.
    values = {"task": spec.task, **values}
  if output_dir is not None:
    values["output_dir"] = output_dir
  words = [flag(name, text) for name, text in values.items()]
  for name, value in (options or {}).items():
    if value is False:
      words.append(f"--no{name}")
    elif value is not None and value is not True:
      words.append(flag(name, str(value)))
  return shlex.join(["python", "-m", "binaries.train", *words])


def non_default_texts(spec: RunSettings) -> dict[str, str]:
  """Returns the non-default settings as strings, by flat name."""
  values = {
    name: getattr(spec, name)
    for name, field in spec.fields().items()
    if getattr(spec, name) != field.default
  }
  for field_name, prefix in PREFIXES.items():
    for name, value in getattr(spec, field_name).items():
      values[f"{prefix}{name}"] = value
  return {name: declared.as_text(value) for name, value in values.items()}


def to_toml(values: Mapping[str, object]) -> str:
  """Returns settings as TOML, without settings that are None."""
  lines = [
    f"{name} = {_toml(value)}"
    for name, value in values.items()
    if value is not None and name not in PREFIXES
  ]
  for name in PREFIXES:
    table = values.get(name)
    if isinstance(table, Mapping) and table:
      lines += ["", f"[{name}]"]
      lines += [
        f"{key} = {_toml('none' if value is None else value)}"
        for key, value in table.items()
      ]
  return "\n".join(lines) + "\n"


def from_toml(text: str) -> dict[str, object]:
  """Parses settings from TOML."""
  try:
    values = parsing.parse_toml(text)
  except parsing.ParseError as error:
    raise ValueError(f"The settings of a run are not TOML: {error}.") from error
  for name in PREFIXES:
    if isinstance(values.get(name), dict):
      # TOML cannot represent None, so "none" stands for it.
      values[name] = {
        key: None if value == "none" else value
        for key, value in values[name].items()
      }
  return values


def _toml(value: object) -> str:
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, float):
    return repr(value) if math.isfinite(value) else str(value)
  # JSON strings are valid TOML, except for one control character.
  if isinstance(value, str):
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
  return repr(value)


def as_flag(
  error: FieldError, flag_names: Mapping[str, str] = MappingProxyType({})
) -> str:
  """Returns an error's setting and value as a flag: `--hparam=gamma=2`.

  `flag_names` maps a field to its flag if the flag's name differs.
  """
  name = FLAG_NAMES.get(error.field, error.field)
  flag = _with_key(flag_names.get(error.field, f"--{name}"), error, "=")
  return f"{flag}{_value(error)}"


def flat_name(error: FieldError) -> str:
  """Returns the flat name of an error's setting, such as `hparam.gamma`."""
  return _with_key(FLAG_NAMES.get(error.field, error.field), error, ".")


def as_setting(error: FieldError) -> str:
  """Returns an error's setting and value, such as `hparam.gamma=2`."""
  return f"{flat_name(error)}{_value(error)}"


def _with_key(name: str, error: FieldError, before: str) -> str:
  return name if error.key is None else f"{name}{before}{error.key}"


def _value(error: FieldError) -> str:
  return "" if error.value is None else f"={declared.as_text(error.value)}"
