"""Settings of runs as text: names and values of flags and TOML."""

import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any

from tff_fair import typed_values

# Before the names of hyperparameters and task options among flat names.
HPARAM, TASK_OPTION = "hparam.", "task_option."
_TABLES = {"hparams": HPARAM, "task_options": TASK_OPTION}


def flag(name: str, text: str) -> str:
  """Returns a setting as a flag.

  Args:
    name: Its flat name: that of a field, "hparam.NAME" or "task_option.NAME".
    text: Its value, as text.
  """
  for prefix in _TABLES.values():
    if name.startswith(prefix):
      return f"--{prefix[:-1]}={name.removeprefix(prefix)}={text}"
  return f"--{name}={text}"


def assignments(values: Mapping[str, Any]) -> list[str]:
  """Returns a mapping as texts of the form name=value."""
  return [f"{name}={typed_values.text(v)}" for name, v in values.items()]


def to_toml(values: Mapping[str, Any]) -> str:
  """Returns settings as TOML; what has no value is left out."""
  lines = [
    f"{name} = {_toml(value)}"
    for name, value in values.items()
    if value is not None and name not in _TABLES
  ]
  for name in _TABLES:
    if table := values.get(name):
      lines += ["", f"[{name}]"]
      lines += [
        f"{key} = {_toml('none' if value is None else value)}"
        for key, value in table.items()
      ]
  return "\n".join(lines) + "\n"


def from_toml(text: str) -> dict[str, Any]:
  """Reads settings from TOML.

  Raises:
    ValueError: If the text is no TOML.
  """
  try:
    values = tomllib.loads(text)
  except tomllib.TOMLDecodeError as error:
    raise ValueError(f"The settings of a run are no TOML: {error}.") from error
  for name in _TABLES:
    if isinstance(values.get(name), dict):
      # TOML has no value for none.
      values[name] = {
        key: None if value == "none" else value
        for key, value in values[name].items()
      }
  return values


def _toml(value: Any) -> str:
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, float):
    return repr(value) if math.isfinite(value) else str(value)
  # JSON's texts are TOML's, but for one control character.
  if isinstance(value, str):
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
  return repr(value)
