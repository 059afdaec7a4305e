"""Programs that train fair models; flags in, a folder of results out."""

import os
import signal
import sys


def _is_starting() -> bool:
  """Returns whether one of the programs has started this process."""
  started = os.path.basename(sys.argv[0]) if sys.argv else ""
  # Python calls it -m as long as it looks for the module.
  return started == "-m" or started.startswith("tff-fair-")


# Imports come first, which take a second: Ctrl-C then ends the process. Python
# would raise an error in the middle of an import, or discard it.
if _is_starting() and (
  signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
  signal.signal(signal.SIGINT, signal.SIG_DFL)
