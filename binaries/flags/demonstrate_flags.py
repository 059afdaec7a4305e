"""Demonstration: where its drawing goes."""

import pathlib

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_KINDS = (".png", ".svg", ".pdf")

_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "The file that gets the drawing, a .png, .svg or .pdf; by default nothing is "
  "drawn.",
  flag_values=NAMESPACE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace that file if it is there already.",
  flag_values=NAMESPACE,
)


def output() -> pathlib.Path | None:
  """Returns the file of the drawing, if there is to be one.

  Raises:
    UsageError: If it is there already, or no path, or its name says no kind of
      drawing.
  """
  if _OUTPUT.value is None:
    return None
  path = command_line.path("output", _OUTPUT.value)
  if path.suffix not in _KINDS:
    raise UsageError(
      f"--output={path}: expected a file whose name ends in "
      f"{', '.join(_KINDS)}."
    )
  if path.exists() and not _OVERWRITE.value:
    raise UsageError(
      f"--output={path}: is there already; give another one, or --overwrite."
    )
  return path
