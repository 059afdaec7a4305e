"""The user's files that make a run's task or model: their versions.

A run goes on, and is exported, with the versions that it began with.
"""

from collections.abc import Iterator, Mapping

import tasks
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import RunSpec

FILE = "_file"  # After the name of a setting: the version of a user's file.
SHORT = 8  # Letters of a digest that people see.


def digests(spec: RunSpec) -> dict[str, str]:
  """Returns digests of a run's files, by the setting that names the file.

  Raises:
    tasks.UserCodeError: If there is no such file any more.
  """
  found = {
    "task": tasks.file_digest(spec.task),
    "model": None if spec.model is None else tasks.model_digest(spec.model),
  }
  return {name: digest for name, digest in found.items() if digest}


def short(found: Mapping[str, str]) -> dict[str, str]:
  """Returns digests of files as settings: `task_file`, `model_file`."""
  return {f"{name}{FILE}": digest[:SHORT] for name, digest in found.items()}


def check(saved: Mapping[str, str], spec: RunSpec) -> None:
  """Checks that the user's files are those that a saved run was made with.

  Args:
    saved: The digests that the run was made with.
    spec: The run.

  Raises:
    RunError: If they have changed.
  """
  for text in other_versions(saved, digests(spec), spec):
    raise RunError(f"the run was made with {text}; put that version back.")


def other_versions(
  saved: Mapping[str, str], now: Mapping[str, str], spec: RunSpec
) -> Iterator[str]:
  """Yields the files whose version is not that of a saved run, as texts.

  Args:
    saved: The digests that the run was made with.
    now: Those of today.
    spec: The run.
  """
  for name in sorted(saved.keys() & now.keys()):
    if saved[name] != now[name]:
      yield f"another version of the file of {name}={getattr(spec, name)}"
