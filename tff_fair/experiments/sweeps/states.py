"""The state of a planned run: finished, pruned, interrupted or new."""

import pathlib

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import RunSpec


def of(spec: RunSpec, folder: pathlib.Path) -> str:
  """Returns "finished", "pruned", "interrupted" or "new".

  Args:
    spec: A run.
    folder: The folder of it.

  Raises:
    RunError: If the folder holds another run, or nobody can read it.
  """
  files = RunFolder(folder)
  if not files.config.exists() or not files.config.stat().st_size:
    files.check_free()
    return "new"
  saved = finding.open_run(folder)
  for name, (before, now) in saved.differences(spec).items():
    raise RunError(
      f"{folder}: holds a run with {name}={before} (here {now}); choose "
      "another folder for the sweep, or move that run away."
    )
  if saved.is_finished:
    return "finished"
  return "pruned" if saved.is_pruned else "interrupted"
