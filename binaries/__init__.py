"""Programs that train fair models: from flags to a folder of results."""

import os
import signal
import sys

from tff_fair import shadowing

_TRAINING = ("binaries.train", "tff-fair-train")
_SHOWING = ("--help", "--list")  # Imports no TensorFlow.


def _is_starting() -> bool:
  """Returns whether one of the programs has started this process."""
  started = os.path.basename(sys.argv[0]) if sys.argv else ""
  # Python's name for it is -m until the module is found.
  return started == "-m" or started.startswith("tff-fair-")


def _is_waited_for() -> bool:
  """Returns whether someone at a terminal will have to wait for TensorFlow."""
  words = [os.path.basename(word) for word in sys.orig_argv]
  return (
    any(name in words for name in _TRAINING)
    and not any(word.startswith(_SHOWING) for word in words)
    and sys.stderr is not None
    and sys.stderr.isatty()
  )


if _is_starting():
  try:
    shadowing.check()
  except ImportError as error:
    sys.exit(str(error))

if _is_starting() and _is_waited_for():
  print("Loading TensorFlow Federated ...", file=sys.stderr, flush=True)

# The following imports take a second, during which Ctrl-C ends the process.
# Python would raise an error in the middle of an import, or discard it.
if _is_starting() and (
  signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
  signal.signal(signal.SIGINT, signal.SIG_DFL)
