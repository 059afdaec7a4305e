"""Task: data and model."""

from __future__ import annotations

import typing

from absl import flags

from binaries.command_line import UsageError

if typing.TYPE_CHECKING:
  import tasks

_TASK = flags.DEFINE_string(
  "task", "digits", "Name of the task; --list shows all."
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir",
  None,
  "Directory of the task's data files. By default the task's loader keeps them "
  "where it always does; `digits` needs none.",
)
_OPTIONS = flags.DEFINE_multi_string(
  "task_option",
  [],
  "--list shows all. An option of the task, as name=value",
)


def name() -> str:
  """Returns the name of the task, which may be unknown."""
  return _TASK.value


def load(seed: int) -> tasks.Task:
  """Loads the task.

  Args:
    seed: Seed of everything random about the task.

  Raises:
    UsageError: If a flag is wrong, or the data cannot be used.
  """
  import tasks  # noqa: PLC0415

  if _TASK.value not in tasks.names():
    raise UsageError(
      f"--task={_TASK.value}: unknown task; valid tasks: "
      f"{', '.join(tasks.names())}."
    )
  try:
    options = tasks.parse_options(_TASK.value, _OPTIONS.value)
    return tasks.load(
      _TASK.value, data_dir=_DATA_DIR.value, seed=seed, **options
    )
  except tasks.DataError as error:
    raise UsageError(f"--data_dir: {error}") from error
  except ValueError as error:
    raise UsageError(f"--task_option: {error}") from error
