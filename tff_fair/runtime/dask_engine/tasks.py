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
  """Imports all that `compute` needs."""
  # This import, like the same one in `compute`, imports TensorFlow Federated.
  from tff_fair.runtime.dask_engine import worker_execution  # noqa: PLC0415

  worker_execution.context()


def compute(versions: Mapping[str, str], content: bytes, arg: Any) -> Any:
  """Computes a call of a TFF computation; raises if versions differ."""
  version_error = version_difference(versions, version.installed())
  if version_error:
    raise VersionError(f"A Dask worker {version_error}.")
  from tff_fair.runtime.dask_engine import worker_execution  # noqa: PLC0415

  return worker_execution.compute(content, unpack(arg))


def unpack(value: Any) -> Any:
  """Returns a value with each `PickledValue` part unpickled."""
  if isinstance(value, PickledValue):
    return pickle.loads(value.content)
  if isinstance(value, tuple):
    return tuple(map(unpack, value))
  return value


def version_difference(
  expected: Mapping[str, str], found: Mapping[str, str]
) -> str | None:
  """Returns how a worker's versions differ from the program's, if they do."""
  for name, of_program in expected.items():
    of_worker = found.get(name, "none")
    if of_worker != of_program:
      return f"has {name} {of_worker}, and the program {of_program}"
  return None
