"""Names of the flagfiles that come with the programs, for `--flagfile`."""

import pathlib
from collections.abc import Sequence

_FOLDER = pathlib.Path(__file__).parent / "flagfiles"
_SUFFIX = ".flags"


def included() -> tuple[str, ...]:
  """Returns the names under which `--flagfile` knows the included files."""
  return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))


def with_paths(argv: Sequence[str]) -> list[str]:
  """Replaces the name of an included flagfile by its path."""
  flag, words = "flagfile", list(argv)
  for place, word in enumerate(words):
    name, equals, value = word.partition("=")
    if name.lstrip("-") == flag and equals:
      words[place] = f"{name}={_path(value)}"
    elif place and words[place - 1].lstrip("-") == flag:
      words[place] = _path(word)
  return words


def _path(name: str) -> str:
  if name in included() and not pathlib.Path(name).exists():
    return str(_FOLDER / f"{name}{_SUFFIX}")
  return name
