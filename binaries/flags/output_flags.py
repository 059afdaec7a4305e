"""Output: where results go, and where computations run."""

import itertools
import os
import pathlib
from collections.abc import Iterable

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair.experiments.runs import folder as run_folder

_OUTPUTS = pathlib.Path("outputs")

_OUTPUT_DIR = flags.DEFINE_string(
  "output_dir",
  None,
  "Folder of the results. It must be new, or hold the same run, interrupted, "
  f"which then goes on. By default {_OUTPUTS}/TASK-ALGORITHM, or the first of "
  "TASK-ALGORITHM-2, -3, ... that is free.",
)
_WORKERS = flags.DEFINE_list(
  "workers",
  [],
  "TFF workers to compute on, as host:port,host:port; by default one that is "
  "started on this machine.",
)


def check() -> None:
  """Checks what can be checked at once, before anything slow is done.

  Raises:
    UsageError: If a flag is wrong.
  """
  if _OUTPUT_DIR.value is None:
    return
  if not _OUTPUT_DIR.value:
    raise UsageError("--output_dir: is empty; name a folder or leave it out.")
  path = _path()
  run_folder.RunFolder(path).check_free()
  ancestor = next(p for p in [path, *path.parents] if os.path.lexists(p))
  if not ancestor.is_dir() or not os.access(ancestor, os.W_OK | os.X_OK):
    raise UsageError(
      f"--output_dir={path}: cannot be written to: {ancestor} is not a folder "
      "that you may write to; choose another folder."
    )


def folders(task: str, algorithm: str) -> Iterable[pathlib.Path]:
  """Returns the folders that may take the run, the preferred first."""
  if _OUTPUT_DIR.value is not None:
    return [_path()]
  first = _OUTPUTS / f"{task}-{algorithm}"
  others = (first.with_name(f"{first.name}-{n}") for n in itertools.count(2))
  return itertools.chain([first], others)


def connect(aggregation: str) -> None:
  """Sets where computations run.

  Args:
    aggregation: The way in which client updates are to be summed.

  Raises:
    UsageError: If a worker cannot be had, or the way is not possible there.
  """
  from tff_fair import runtime  # noqa: PLC0415

  if not _WORKERS.value:
    runtime.use_local()
    return
  if aggregation == "two_phase":
    raise UsageError(
      f"--workers: cannot sum with --aggregation={aggregation}, where one sum "
      "depends on another; give another aggregation that the algorithm has."
    )
  try:
    runtime.use_workers(_WORKERS.value)
  except (ConnectionError, ValueError) as error:
    raise UsageError(f"--workers: {error}") from error


def _path() -> pathlib.Path:
  return command_line.path(_OUTPUT_DIR.name, _OUTPUT_DIR.value)
