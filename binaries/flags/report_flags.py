"""Report: where it goes."""

import os
import pathlib

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tasks.formats import files

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_OUTPUT = flags.DEFINE_string(
  "output", "report.html", "The HTML file to write.", flag_values=NAMESPACE
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace the file if it is there already.",
  flag_values=NAMESPACE,
)
_TITLE = flags.DEFINE_string(
  "title",
  None,
  "Title of the page; by default it names the data.",
  flag_values=NAMESPACE,
)
_BASELINE = flags.DEFINE_string(
  "baseline",
  None,
  "The method that the page compares the others with, by the name of the "
  "algorithm or as the page calls it; by default fedavg, or else the first.",
  flag_values=NAMESPACE,
)
_UNFINISHED = flags.DEFINE_boolean(
  "unfinished",
  False,
  "Show unfinished runs, too, as far as they have come.",
  flag_values=NAMESPACE,
)
_WATCH = flags.DEFINE_boolean(
  "watch",
  False,
  "Write the page again whenever its runs have changed, until all are finished "
  "or Ctrl-C. It shows unfinished runs, too, and loads itself anew in the "
  "browser.",
  flag_values=NAMESPACE,
)


def output() -> pathlib.Path:
  """Returns the file to write.

  Raises:
    UsageError: If it cannot be a file, or is there and may not be replaced.
  """
  if not _OUTPUT.value:
    raise UsageError("--output: is empty; name the HTML file to write.")
  path = command_line.path("output", _OUTPUT.value)
  if path.is_dir():
    raise UsageError(
      f"--output={path}: is a folder; name a file in it, as "
      f"{path / 'report.html'}."
    )
  try:
    files.check_regular(path)
  except OSError as error:
    raise UsageError(f"--output={error}") from error
  if os.path.lexists(path) and not overwrite():
    raise UsageError(
      f"--output={path}: exists already; name another file, or replace it with "
      "--overwrite."
    )
  return path


def overwrite() -> bool:
  """Returns whether the file may be replaced."""
  return _OVERWRITE.value


def title() -> str | None:
  """Returns the title that was given, if one was."""
  return _TITLE.value


def baseline() -> str | None:
  """Returns the method to compare the others with, if one was given."""
  return _BASELINE.value


def unfinished() -> bool:
  """Returns whether to show unfinished runs."""
  return _UNFINISHED.value


def watch() -> bool:
  """Returns whether to renew the page until the runs are finished."""
  return _WATCH.value
