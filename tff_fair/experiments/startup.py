"""The import of TensorFlow Federated, without parts that are not needed.

Also checks whether the system allows it, and whether optional packages are
installed.
"""

import atexit
import contextlib
import gc
import importlib.util
import math
import resource
import sys
from collections.abc import Iterator

from tff_fair import shadowing
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.runtime import cgroups

shadowing.check()  # Before imports that another package could shadow.

# What the system must allow a process that trains. With 24 open files, a run
# failed after it had begun; with 48, it finished. With 2 GiB of addresses, the
# import of TensorFlow failed; with 4 GiB, a run had no round after 100 s; with
# 5 GiB, it finished. (Measured with TensorFlow 2.14 on digits, 6 clients.)
_LEAST_OPEN_FILES = 48
_LEAST_ADDRESSES = 5 << 30  # Bytes.
# The imports of a run take 0.69 GB of memory.
_LEAST_MEMORY = 512 << 20  # Bytes.

# Python's garbage collector, when it only costs time.
#
# TensorFlow Federated creates more than a million objects during its import,
# and all of them stay. The collector visits them again and again: during the
# import, in each full collection after that, and at the end of the program,
# when their memory is freed anyway.


def freeze_gc() -> None:
  """Excludes all present objects from garbage collection, also at the end.

  For programs that have just imported all they need. Only the first call in a
  process has an effect: objects that a later call finds may be garbage.
  """
  if not gc.get_freeze_count():
    gc.freeze()
    atexit.register(gc.freeze)


@contextlib.contextmanager
def fast_import() -> Iterator[None]:
  """Surrounds an import that may be the first one of TensorFlow Federated.

  It imports TensorFlow Probability, a thousand modules, for discrete Gaussian
  noise, which runs do not use. That package imports its parts lazily, but only
  if it is imported before TensorFlow. No garbage is collected meanwhile, since
  imports leave little.
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
  """Checks that this process may use as many files and as much memory as a run.

  Otherwise TensorFlow ends the process or raises errors of many kinds.
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
  """Returns the limit that the system sets to a resource of a process."""
  allowed, _ = resource.getrlimit(limit)
  return math.inf if allowed == resource.RLIM_INFINITY else allowed


def check_installed(
  package: str, extra: str, field: str, value: object = None, who: str = ""
) -> None:
  """Checks that a package is installed."""
  if importlib.util.find_spec(package) is None:
    raise FieldError(
      field,
      f"{who}needs the package {package}, of the extra {extra}; install it "
      "with pip install --no-deps -r requirements-dev.txt (docs/tff.md).",
      value=value,
    )
