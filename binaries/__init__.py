"""The command-line programs: they train, compare, audit and export models."""

import os
import signal
import sys

from tff_fair import shadowing

_TRAINING = ("binaries.train", "tff-fair-train")
_SHOWING = ("--help", "--list")  # With these, programs import no TensorFlow.


def _is_starting() -> bool:
  """Returns whether this process was started as one of the programs."""
  started = os.path.basename(sys.argv[0]) if sys.argv else ""
  # With `python -m`, argv[0] is "-m" until Python has found the module.
  return started == "-m" or started.startswith("tff-fair-")


def _is_waited_for() -> bool:
  """Returns whether a user at a terminal will wait for TensorFlow's import."""
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
  if _is_waited_for():
    print("Loading TensorFlow Federated ...", file=sys.stderr, flush=True)
  # Let Ctrl-C end the process at once during the following imports, which take
  # a second: by default, an import could raise or discard KeyboardInterrupt.
  if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
