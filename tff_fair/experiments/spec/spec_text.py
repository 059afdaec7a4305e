"""Settings of runs as text: names and values of flags and TOML."""

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
# The prefixes and the names of flags, by the fields that hold the values.
PREFIXES = {"hparams": HPARAM, "task_options": TASK_OPTION}
FLAG_NAMES = {field: prefix[:-1] for field, prefix in PREFIXES.items()}


def flag(name: str, text: str) -> str:
  """Returns a setting as a flag."""
  for prefix in PREFIXES.values():
    if name.startswith(prefix):
      return f"--{prefix[:-1]}={name.removeprefix(prefix)}={text}"
  return f"--{name}={text}"


def assignments(values: Mapping[str, object]) -> list[str]:
  """Returns a mapping as texts of the form name=value."""
  return [f"{name}={declared.as_text(v)}" for name, v in values.items()]


def parse_hparams(algorithm: str, texts: Iterable[str]) -> dict[str, Value]:
  """Reads hyperparameters from `name=value` texts."""
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
  """Checks that a method has a hyperparameter."""
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
  """Reads options of a task from `name=value` texts."""
  if not tasks.is_task(task):
    return {}
  try:
    return tasks.parse_options(task, texts)
  except FieldError as error:
    raise error.within("task_options") from error
  except ValueError as error:
    raise FieldError("task_options", str(error)) from error


# Flags that do not define an experiment: runs that differ only in them repeat
# the same one.
REPETITIONS = ("seed", "model_seed", "total_rounds")


def command(
  spec: RunSettings,
  output_dir: str | None = None,
  options: Mapping[str, object] | None = None,
) -> str:
  """Returns the command line of a run: what differs from the defaults."""
  values = non_default_texts(spec)
  if values.keys() <= set(REPETITIONS):
    # With no other flags, binaries.train would run its demo ("first look").
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
  """Returns the settings that differ from the defaults, by flat names."""
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
  """Returns settings as TOML, without those that have no value."""
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
  """Reads settings from TOML."""
  try:
    values = parsing.parse_toml(text)
  except parsing.ParseError as error:
    raise ValueError(f"The settings of a run are not TOML: {error}.") from error
  for name in PREFIXES:
    if isinstance(values.get(name), dict):
      # TOML has no value for none.
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


# The setting that an error is about, as flags and sweep files name it.


def as_flag(
  error: FieldError, flag_names: Mapping[str, str] = MappingProxyType({})
) -> str:
  """Returns the flag and the value at fault, such as `--hparam=gamma=2`."""
  name = FLAG_NAMES.get(error.field, error.field)
  flag = _with_key(flag_names.get(error.field, f"--{name}"), error, "=")
  return f"{flag}{_value(error)}"


def flat_name(error: FieldError) -> str:
  """Returns the flat name of the setting at fault, such as `hparam.gamma`."""
  return _with_key(FLAG_NAMES.get(error.field, error.field), error, ".")


def as_setting(error: FieldError) -> str:
  """Returns the flat name with the value at fault, such as `hparam.gamma=2`."""
  return f"{flat_name(error)}{_value(error)}"


def _with_key(name: str, error: FieldError, before: str) -> str:
  return name if error.key is None else f"{name}{before}{error.key}"


def _value(error: FieldError) -> str:
  return "" if error.value is None else f"={declared.as_text(error.value)}"
