"""The import of TensorFlow Federated, without what is not needed.

And whether packages are there that only some users have.
"""

import atexit
import contextlib
import gc
import importlib.util
import sys
from collections.abc import Iterator

from tff_fair.declared import FieldError

# Python's garbage collector, where it only costs time.
#
# TensorFlow Federated makes more than a million objects as it is imported, and
# all of them stay. The collector looks through them again and again: while they
# come, in each full collection after that, and at the end of the program, when
# their memory goes back anyway.


def spare_what_stays() -> None:
  """Has the collector leave all alone that there is now, and at the end.

  For programs that have just imported all they need. Only the first call of a
  process counts: what a later one finds may be garbage.
  """
  if not gc.get_freeze_count():
    gc.freeze()
    atexit.register(gc.freeze)


@contextlib.contextmanager
def quick() -> Iterator[None]:
  """Surrounds an import that may be the first one of TensorFlow Federated.

  It brings TensorFlow Probability, a thousand modules, for discrete Gaussian
  noise, which runs do not use. That package imports its parts when a program
  uses them, but only if it comes before TensorFlow. No garbage is collected
  meanwhile: imports leave little.
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


def check_installed(
  package: str, extra: str, field: str, value: object = None, who: str = ""
) -> None:
  """Checks that a package is there.

  Args:
    package: Its name.
    extra: The extra of this project that brings it.
    field: The setting that needs it.
    value: The value of the setting.
    who: Who needs it, if that is not the value.

  Raises:
    FieldError: If it is missing.
  """
  if importlib.util.find_spec(package) is None:
    raise FieldError(
      field,
      f"{who}needs the package {package}, of the extra {extra}; install it "
      "with pip install --no-deps -r requirements-dev.txt (docs/tff.md).",
      value=value,
    )
