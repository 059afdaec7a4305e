"""The error of data that cannot be used."""


class DataError(ValueError):
  """A task's data cannot be used; the message names the file and the place.

  It quotes what files hold and how they are called. So line ends, control
  characters and halves of characters are written out: the message stays one
  line, which every terminal and log can show.
  """

  def __init__(self, message: str) -> None:
    super().__init__("".join(map(_shown, message)))


def _shown(character: str) -> str:
  if character.isprintable():
    return character
  return character.encode("unicode_escape").decode()
