"""Shows what the papers' theorems and figures claim, on numbers.

Give the name of one, or no name for all names. It needs no data and takes
seconds. The status is 1 if a claim does not hold.
"""

import sys

import demonstrations
from binaries import command_line
from binaries.flags import demonstrate_flags
from tff_fair.experiments import interruption, progress


@interruption.at_once()
def main(*names: str) -> None:
  """Computes the demonstration of a name, and draws it on demand."""
  if not names:
    print("\n".join(demonstrations.NAMES))
    return
  if len(names) > 1 or names[0] not in demonstrations.NAMES:
    raise command_line.UsageError(
      f"{' '.join(names)!r}: expected one demonstration of "
      f"{', '.join(demonstrations.NAMES)}."
    )
  path = demonstrate_flags.output()
  progress.say_on_screen("Loading TensorFlow ...")
  found = demonstrations.demonstrate(names[0])
  print(found.describe())
  if path is not None:
    try:
      found.save(path)
    except OSError as error:
      raise command_line.UsageError(f"--output={error}") from error
    progress.say(f"{path}: written.")
  if not found.holds:
    sys.exit(1)


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (demonstrate_flags,),
  arguments="[NAME]",
  namespace=demonstrate_flags.NAMESPACE,
)
run = PROGRAM.run  # The console script tff-fair-demonstrate.


if __name__ == "__main__":
  run()
