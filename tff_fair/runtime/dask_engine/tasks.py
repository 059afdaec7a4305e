"""The functions that Dask's workers run.

Dask's scheduler unpickles tasks, too. So this module does not import
TensorFlow, and passes values as bytes that only workers unpickle.
"""

import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any

from tff_fair.runtime import version


@dataclasses.dataclass(frozen=True)
class PickledValue:
  """A value that a worker unpickles."""

  content: bytes


class VersionError(RuntimeError):
  """Program and worker have different versions of a package."""


def prepare() -> None:
  """Prepares a worker for `compute`: imports TFF and creates the context."""
  # Only functions import `worker_execution`, since that imports TensorFlow
  # Federated, which Dask's scheduler must not do.
  from tff_fair.runtime.dask_engine import worker_execution  # noqa: PLC0415

  worker_execution.context()


def compute(versions: Mapping[str, str], content: bytes, arg: Any) -> Any:
  """Calls the TFF computation that `content` serializes; returns the result.

  Raises `VersionError` if the worker's versions differ from `versions`.
  """
  version_error = version_difference(versions, version.installed())
  if version_error:
    raise VersionError(f"A Dask worker {version_error}.")
  from tff_fair.runtime.dask_engine import worker_execution  # noqa: PLC0415

  return worker_execution.compute(content, unpack(arg))


def unpack(value: Any) -> Any:
  """Unpickles a `PickledValue`, or each `PickledValue` within nested tuples."""
  if isinstance(value, PickledValue):
    return pickle.loads(value.content)
  if isinstance(value, tuple):
    return tuple(map(unpack, value))
  return value


def version_difference(
  expected: Mapping[str, str], found: Mapping[str, str]
) -> str | None:
  """Describes a worker's first wrong version; None if no version is wrong."""
  for name, of_program in expected.items():
    of_worker = found.get(name, "none")
    if of_worker != of_program:
      return f"has {name} {of_worker}, and the program {of_program}"
  return None
