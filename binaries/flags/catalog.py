"""Catalog: what there is to choose from."""

import textwrap
from collections.abc import Mapping
from typing import Any

from absl import flags

_LIST = flags.DEFINE_boolean(
  "list",
  False,
  "Show all tasks with their options, and all algorithms with their "
  "hyperparameters and ways to sum, and exit.",
)


def is_wanted() -> bool:
  """Returns whether the catalog is to be shown instead of a run."""
  return _LIST.value


def text() -> str:
  """Returns the catalog, with default values."""
  import tasks  # noqa: PLC0415
  import tff_fair  # noqa: PLC0415

  lines = ["Tasks (--task) and their options (--task_option)"]
  for name in tasks.names():
    lines += _entry(name, _assignments(tasks.option_defaults(name)))
  lines += ["", "Algorithms (--algorithm), their hyperparameters (--hparam)"]
  lines += ["and the ways to sum updates (--aggregation), the default first"]
  for name in tff_fair.algorithms.names():
    algorithm = tff_fair.algorithms.get(name)
    lines += _entry(
      name,
      f"{_assignments(algorithm.hparams) or 'no hyperparameters'}; "
      f"{', '.join(algorithm.aggregations)}",
    )
  return "\n".join(lines)


def _assignments(defaults: Mapping[str, Any]) -> str:
  return ", ".join(f"{name}={_text(value)}" for name, value in defaults.items())


def _text(value: Any) -> str:
  # As it would be given on the command line.
  is_word = value is None or isinstance(value, bool)
  return str(value).lower() if is_word else str(value)


def _entry(name: str, description: str) -> list[str]:
  lines = textwrap.wrap(description, 74)
  return [f"  {name}", *(f"      {line}" for line in lines)]
