"""Checks the files and folders that programs' flags name."""

import contextlib
import errno
import os
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from binaries.command_line import UsageError, prefixing_errors
from tff_fair.experiments import RunError, progress
from tff_fair.experiments.runs.discovery import FoundRuns
from tff_fair.files import atomic

_NO_PATHS = (errno.ENAMETOOLONG, errno.ELOOP)
_LONGEST_NAME = 255  # The longest name of a file or folder on Linux, in bytes.


def prefixing_output_dir() -> contextlib.AbstractContextManager[None]:
  """Turns `RunError` "PATH: ..." into `UsageError` "--output_dir=PATH: ..."."""
  return prefixing_errors("--output_dir=", RunError)


def parse_optional(flag: flags.FlagHolder[str | None]) -> pathlib.Path | None:
  """Returns the path that an optional flag names, or None."""
  if flag.value is None:
    return None
  if not flag.value:
    raise UsageError(f"--{flag.name}: is empty; name a path or leave it out.")
  return parse(flag.name, flag.value)


def parse(flag: str, text: str) -> pathlib.Path:
  """Returns the path that a flag names; replaces ~ by the home directory."""
  given = f"{flag if flag.isupper() else f'--{flag}'}="
  try:
    found = pathlib.Path(text).expanduser()
  except RuntimeError as error:
    raise UsageError(
      f"{given}{text}: there is no such home directory; write out the path."
    ) from error
  try:
    found.lstat()
  except ValueError as error:
    raise UsageError(f"{given}{text!r}: is not a path: {error}.") from error
  except OSError as error:
    number = error.errno or 0
    if any(len(os.fsencode(name)) > _LONGEST_NAME for name in found.parts):
      number = errno.ENAMETOOLONG  # A missing parent folder hides this error.
    if number in _NO_PATHS:
      raise UsageError(
        f"{given}{text}: {os.strerror(number)}; give another path."
      ) from error
  return found


def new_output(
  text: str,
  *,
  overwrite: bool,
  endings: Sequence[str] = (),
  makes_folder: bool = False,
) -> pathlib.Path:
  """Returns the path in --output; raises `UsageError` if it is not usable."""
  if not text:
    raise UsageError("--output: is empty; name the file to write.")
  found = parse("output", text)
  if endings and found.suffix not in endings:
    raise UsageError(
      f"--output={found}: expected a name that ends in {', '.join(endings)}."
    )
  with prefixing_errors("--output=", OSError):
    atomic.check_free(found, overwrite=overwrite)
  if not makes_folder and not found.parent.is_dir():
    raise UsageError(
      f"--output={found}: there is no folder {found.parent}; make it first."
    )
  return found


def run_folder(words: Sequence[str]) -> pathlib.Path:
  """Returns the folder of the run that the arguments name."""
  if len(words) != 1:
    raise UsageError(
      f"RUN: expected the folder of one run, found {len(words)}."
    )
  if not words[0]:
    raise UsageError("RUN: is empty; name the folder of a run.")
  return parse("RUN", words[0])


def exit_if_changed(found: FoundRuns) -> None:
  """Ends the program with status 1 if files of runs are damaged or changed."""
  if wrong := len(found.notes):
    number = wrong + len(found.runs) - len(found.changed)
    progress.say(
      f"--verify: {wrong} of {number} runs are damaged, or have files that "
      "changed since the run wrote them; see above."
    )
    sys.exit(1)


def write_output(
  path: pathlib.Path, content: str, flag: str = "output"
) -> None:
  """Writes the file that a flag names, either completely or not at all."""
  try:
    atomic.write(path, content)
  except OSError as error:
    raise UsageError(
      f"--{flag}={path}: cannot be written: {error.strerror or error}."
    ) from error
  progress.say(f"{path}: written.")
