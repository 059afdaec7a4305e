"""The saved states of a run, and whether they are as they were written.

A state is a folder in TensorFlow's SavedModel format. `checksums.json` in it
holds the size and the SHA-256 of each of its files. It is written last: a state
without it is not complete. TensorFlow checks some bytes of a state and not
others, and reports damage by errors of many kinds.
"""

import hashlib
import pathlib
from typing import Any

from tasks.formats import files, parsing
from tff_fair.experiments.errors import RunError

PREFIX = "program_state_"  # Before the round. It is TFF's own default.
CHECKSUMS = "checksums.json"

# What a missing file, or another thing in its place, raises. All other errors
# of the system may pass: no permission, no descriptor left, a network disk.
_GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class DamageError(RunError):
  """A saved state is not as it was written.

  Attributes:
    problem: The file of the state and its damage.
  """

  def __init__(self, state: pathlib.Path, problem: str) -> None:
    super().__init__(f"{state}: is damaged: {problem}.")
    self.problem = problem


def path(folder: pathlib.Path, round_num: int) -> pathlib.Path:
  """Returns where a folder of states has the state after a round."""
  return folder / f"{PREFIX}{round_num}"


def rounds(folder: pathlib.Path) -> list[int]:
  """Returns the rounds whose states a folder has, in ascending order.

  Raises:
    RunError: If the program cannot look into the folder.
  """
  try:
    names = [path.name for path in folder.iterdir()]
  except FileNotFoundError as error:
    if not folder.is_symlink():
      return []
    raise _unreadable(folder, error) from error
  except OSError as error:
    raise _unreadable(folder, error) from error
  numbers = [n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX)]
  return sorted(int(number) for number in numbers if number.isdecimal())


def write_checksums(state: pathlib.Path) -> None:
  """Writes the checksums of a state whose files are complete."""
  found = {
    str(file.relative_to(state)): _checksum(file)
    for file in sorted(state.rglob("*"))
    if file.is_file() and file.name != CHECKSUMS
  }
  files.write(state / CHECKSUMS, parsing.json_text(found))


def is_complete(state: pathlib.Path) -> bool:
  """Returns whether a state has its checksums, as far as they can be read."""
  try:
    _read_checksums(state)
  except (DamageError, *_GONE):
    return False
  except OSError:
    pass  # It may pass, and then they may be there.
  return True


def check(state: pathlib.Path) -> None:
  """Checks that all files of a state are as they were written.

  Raises:
    DamageError: If a file is not as it was written.
    RunError: If a file cannot be read at present.
  """
  try:
    for file, kind in files.special_files(state):
      # To read it may never end.
      raise DamageError(state, f"{file.name} is a {kind}")
    _check_against(state, _read_checksums(state))
  except OSError as error:
    if isinstance(error, _GONE):
      place = pathlib.Path(error.filename or state)
      raise DamageError(state, f"{place.name} is missing") from error
    raise _unreadable(state, error) from error


def load(state: pathlib.Path) -> Any:
  """Returns the contents of a state; imports TensorFlow.

  Raises:
    DamageError: If the state is not as it was written.
    RunError: If it cannot be read at present.
  """
  import tensorflow as tf  # noqa: PLC0415

  check(state)
  try:
    return tf.saved_model.load(str(state))()
  except (MemoryError, tf.errors.ResourceExhaustedError) as error:
    raise RunError(
      f"{state}: cannot be read for want of memory or file descriptors; free "
      "some, and try again."
    ) from error
  except Exception as error:
    # Damage makes TensorFlow raise errors of any kind.
    raise DamageError(state, f"TensorFlow cannot read it ({error})") from error


def _check_against(
  state: pathlib.Path, expected: dict[str, dict[str, Any]]
) -> None:
  for name, checksum in expected.items():
    found = _checksum(state / name)
    if found == checksum:
      continue
    size, expected_size = found["bytes"], checksum.get("bytes")
    problem = (
      "has changed"
      if size == expected_size
      else f"has {size} bytes instead of {expected_size}"
    )
    raise DamageError(state, f"{name} {problem}")


def _read_checksums(state: pathlib.Path) -> dict[str, dict[str, Any]]:
  try:
    content = parsing.parse_json((state / CHECKSUMS).read_bytes())
  except parsing.ParseError as error:
    raise DamageError(state, f"{CHECKSUMS} is not JSON") from error
  if (
    not isinstance(content, dict)
    or not content
    or not all(isinstance(value, dict) for value in content.values())
  ):
    raise DamageError(state, f"{CHECKSUMS} holds no checksums")
  return content


def _checksum(file: pathlib.Path) -> dict[str, Any]:
  with file.open("rb") as opened:
    digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {"bytes": opened.tell(), "sha256": digest}


def _unreadable(path: pathlib.Path, error: OSError) -> RunError:
  return RunError(
    f"{error.filename or path}: cannot be read: {error.strerror or error}; "
    "nothing was changed. Make it readable and try again, or move "
    f"{path} away to go on without it."
  )
