"""The error of data that cannot be used."""

import contextlib
from collections.abc import Iterator


class DataError(ValueError):
  """A task's data cannot be used; the message names the file and the place.

  It quotes what files hold and how they are called. So line ends, control
  characters and halves of characters are written out: the message stays one
  line, which every terminal and log can show.

  Attributes:
    setting: What says where the data is: "data_dir", "task" where a user's
      function says it, or an option of the task.
  """

  def __init__(self, message: str, *, setting: str = "data_dir") -> None:
    super().__init__("".join(map(_shown, message)))
    self.setting = setting


@contextlib.contextmanager
def named_by(option: str) -> Iterator[None]:
  """Notes on errors within that an option says where the data is."""
  try:
    yield
  except DataError as error:
    error.setting = option
    raise


def _shown(character: str) -> str:
  if character.isprintable():
    return character
  return character.encode("unicode_escape").decode()
