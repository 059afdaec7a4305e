"""Finds, checks and loads the saved states of a run: SavedModel folders."""

import pathlib
from typing import Any

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checksums, saved_model_programs
from tff_fair.files import atomic, parsing

PREFIX = "program_state_"  # TFF's default prefix, before the round number.

# Errors about a missing file, or a folder in its place. Other system errors may
# be temporary, such as a lack of permission or descriptors, or a network error.
_GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def path(folder: pathlib.Path, round_num: int) -> pathlib.Path:
  """Returns the path of the state after a round, in a folder of states."""
  return folder / f"{PREFIX}{round_num}"


def saved_rounds(folder: pathlib.Path) -> list[int]:
  """Returns the rounds whose states a folder contains, in ascending order."""
  try:
    names = [path.name for path in folder.iterdir()]
  except OSError as error:
    if isinstance(error, FileNotFoundError) and not folder.is_symlink():
      return []
    raise _unreadable(folder, error) from error
  numbers = [n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX)]
  return sorted(int(number) for number in numbers if number.isdecimal())


def write_checksums(state: pathlib.Path) -> None:
  """Writes checksums of a state's files, which mark the state as complete."""
  files = filter(pathlib.Path.is_file, state.rglob("*"))
  checksums.write(state, (f for f in files if f.name != checksums.FILE))


def is_complete(state: pathlib.Path) -> bool:
  """Returns whether a state has checksums; True if they cannot be read now."""
  try:
    checksums.read(state)
  except (parsing.ParseError, *_GONE):
    return False
  except OSError:
    pass  # The error may be temporary, and the checksums may exist.
  return True


def find_damage(state: pathlib.Path) -> str | None:
  """Returns a phrase about the damage to a state; None if it is intact."""
  try:
    for file, kind in atomic.special_files(state):
      # Reading a special file, such as a pipe, may never end.
      return f"{file.name} is a {kind}"
    for name, checksum in checksums.read(state).items():
      if (how := checksums.difference(state / name, checksum)) is not None:
        return f"{name} {how}"
  except parsing.ParseError as error:
    return str(error)
  except _GONE as error:
    return f"{pathlib.Path(error.filename or state).name} is missing"
  except OSError as error:
    raise _unreadable(state, error) from error
  return None


def load_state(state: pathlib.Path) -> Any:
  """Returns the contents of a state after safety checks; imports TensorFlow."""
  import tensorflow as tf  # noqa: PLC0415

  if (found := find_damage(state)) is not None:
    raise _damage_error(state, found)
  try:
    outward = saved_model_programs.outward_operations(state)
  except ValueError as error:
    raise _damage_error(state, str(error)) from error
  if outward:
    raise RunError(
      f"{state}: its program reaches files or code ({', '.join(outward)}), "
      "which no state of a run does; use a run from someone you trust."
    )
  try:
    return tf.saved_model.load(str(state))()
  except (MemoryError, tf.errors.ResourceExhaustedError) as error:
    raise RunError(
      f"{state}: cannot be read for lack of memory or file descriptors; free "
      "some, and try again."
    ) from error
  except Exception as error:
    # For a damaged state, TensorFlow may raise errors of any class.
    raise _damage_error(
      state, f"TensorFlow cannot read it ({error})"
    ) from error


def _damage_error(state: pathlib.Path, problem: str) -> RunError:
  return RunError(f"{state}: is damaged: {problem}.")


def _unreadable(path: pathlib.Path, error: OSError) -> RunError:
  return RunError(
    f"{error.filename or path}: cannot be read: {error.strerror or error}; "
    f"nothing was changed. Make it readable and try again, or move {path} away "
    "to continue without it."
  )
