"""Checks claims of the papers' theorems and figures, on small examples.

Give the name of a demonstration, or no name to list all names. A demonstration
needs no data and takes seconds. The exit status is 1 if a claim does not hold.
"""

import sys

import demonstrations
from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair.experiments import interruption, progress

_FLAGS = command_line.Flags()
_ENDINGS = (".png", ".svg", ".pdf")

_OUTPUT = _FLAGS.text(
  "output",
  None,
  "The file to draw into, a .png, .svg or .pdf; by default the program draws "
  "nothing.",
)
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace an existing file.")


@interruption.exit_on_signal()
def main(*names: str) -> None:
  """Lists all demonstrations, or computes one and draws it on request."""
  if not names:
    print("\n".join(demonstrations.NAMES))
    return
  if len(names) > 1 or names[0] not in demonstrations.NAMES:
    raise UsageError(
      f"{' '.join(names)!r}: expected one demonstration of "
      f"{', '.join(demonstrations.NAMES)}."
    )
  path = None
  if _OUTPUT.value is not None:
    path = paths.new_output(
      _OUTPUT.value, overwrite=_OVERWRITE.value, endings=_ENDINGS
    )
  progress.say_to_terminal("Loading TensorFlow ...")
  found = demonstrations.demonstrate(names[0])
  print(found.describe())
  if path is not None:
    with command_line.prefixing_errors("--output=", OSError):
      found.save(path)
    progress.say(f"{path}: written.")
  if not found.holds:
    sys.exit(1)


PROGRAM = _FLAGS.program(
  main, __doc__, "Demonstration: the drawing to write.", arguments="[NAME]"
)
run = PROGRAM.run  # The console script tff-fair-demonstrate.


if __name__ == "__main__":
  run()
