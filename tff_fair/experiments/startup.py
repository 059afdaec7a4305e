"""Imports TensorFlow Federated fast, without parts that runs do not need.

Also checks the system's limits, and whether optional packages are installed.
"""

import atexit
import contextlib
import gc
import math
import resource
import sys
from collections.abc import Iterator

from tff_fair import shadowing
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.runtime import cgroups, schedulers

shadowing.check()  # Must precede imports that could be shadowed.

# Limits that a process needs for training. With 24 open files, a run failed
# after it had begun; with 48, it finished. With 2 GiB of address space, the
# import of TensorFlow failed; with 4 GiB, a run did not finish a round within
# 100 s; with 5 GiB, it finished. (TensorFlow 2.14, task digits, 6 clients.)
_LEAST_OPEN_FILES = 48
_LEAST_ADDRESSES = 5 << 30  # Bytes.
# The imports of a run take 0.69 GB of memory, and its peak is above 1 GB.
_LEAST_MEMORY = 700_000_000  # Bytes.

# TensorFlow Federated creates more than a million permanent objects during its
# import. Python's garbage collector visits them in vain: during the import, in
# each full collection after that, and at the end of the program.


def freeze_gc() -> None:
  """Excludes all present objects from garbage collection, also at exit.

  Programs call this after their imports. Only the first call in a process has
  an effect, since objects that exist at later calls may be garbage.
  """
  if not gc.get_freeze_count():
    gc.freeze()
    atexit.register(gc.freeze)


@contextlib.contextmanager
def fast_import() -> Iterator[None]:
  """A context in which the first import of TensorFlow Federated is fast.

  TensorFlow Federated imports TensorFlow Probability, a thousand modules, for
  discrete Gaussian noise, which runs do not use. If TensorFlow Probability is
  imported before TensorFlow, it imports its parts lazily. During the import,
  garbage collection is off, since imports leave little garbage.
  """
  if "tensorflow" not in sys.modules:
    import tensorflow_probability  # noqa: F401, PLC0415
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()


def check_limits() -> None:
  """Raises `RunError` unless limits allow enough open files and memory.

  If a limit is too low, TensorFlow ends the process or raises unclear errors.
  """
  for allowed, least, what, way in (
    (
      _allowed(resource.RLIMIT_NOFILE),
      _LEAST_OPEN_FILES,
      "open files",
      f"ulimit -n {_LEAST_OPEN_FILES}, or unlimited",
    ),
    (
      _allowed(resource.RLIMIT_AS),
      _LEAST_ADDRESSES,
      "bytes of virtual memory",
      f"ulimit -v {_LEAST_ADDRESSES >> 10}, or unlimited",
    ),
    (
      cgroups.memory(),
      _LEAST_MEMORY,
      "bytes of memory",
      "the limit of its container or job",
    ),
  ):
    if allowed < least:
      raise RunError(
        f"This process may have {allowed:,} {what}, and training needs "
        f"{least:,}: allow more of them ({way})."
      )


def _allowed(limit: int) -> float:
  """Returns this process's limit of a resource; infinity if unlimited."""
  allowed, _ = resource.getrlimit(limit)
  return math.inf if allowed == resource.RLIM_INFINITY else allowed


def check_installed(
  package: str, extra: str, field: str, value: object = None, who: str = ""
) -> None:
  """Raises a `FieldError` on `field` unless an optional package is installed.

  Its message begins with `who`, and names the `extra` that has the package.
  """
  try:
    schedulers.check_installed(package, extra)
  except ModuleNotFoundError as error:
    raise FieldError(field, f"{who}{error}", value=value) from error
