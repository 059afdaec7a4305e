"""Finds the known name that a user means, or suggests similar names.

A user's name matches a known name if they differ only in case, in "-" and "_",
or in "+" for "plus": "FedMGDA+" matches fedmgda_plus.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence

# The least similarity, as `difflib` measures it, of a name and a guess.
_SIMILAR = 0.75
_MOST_GUESSES = 3


def resolve(name: str, known: Iterable[str]) -> str:
  """Returns the only known name that `name` matches, or `name` unchanged."""
  known = list(known)
  if name in known:
    return name
  found = [other for other in known if _letters(other) == _letters(name)]
  return found[0] if len(found) == 1 else name


def guesses(name: str, known: Iterable[str]) -> list[str]:
  """Returns the known names that a name may mean, the closest first."""
  known = list(known)
  # Prefers known names that contain `name`, such as total_rounds for "rounds".
  if longer := [n for n in known if name.casefold() in n.casefold().split("_")]:
    return sorted(longer, key=len)[:_MOST_GUESSES]
  near = difflib.get_close_matches(
    _letters(name), {*map(_letters, known)}, n=_MOST_GUESSES, cutoff=_SIMILAR
  )
  return [n for spelling in near for n in known if _letters(n) == spelling]


def suggest(
  name: str,
  known: Iterable[str],
  otherwise: str = "",
  *,
  shown: Callable[[str], str] = str,
) -> str:
  """Returns "did you mean ...?" with similar names, or else `otherwise`.

  `shown` formats each name.
  """
  near = " or ".join(map(shown, guesses(name, known)))
  return f"did you mean {near}?" if near else otherwise


def advice(
  name: str, known: Iterable[str], what: str, *, always_all: bool = False
) -> str:
  """Returns the hint for an unknown name: similar names, or else all names.

  With `always_all`, the hint lists all names even if it has similar names.
  `what` is the plural noun for the names, or "".
  """
  known = list(known)
  heading = f"valid {what}" if what else "valid"
  every = f"{heading}: {', '.join(known) or 'none'}."
  asked = suggest(name, known, every)
  return f"{asked} {every}" if always_all and asked != every else asked


def join_names(names: Sequence[str], most: int = 10) -> str:
  """Joins at most `most` names, such as "a, b and 3 more" for `most` = 2."""
  more = len(names) - most
  return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _letters(name: str) -> str:
  letters = name.casefold().replace("+", "plus")
  return "".join(letter for letter in letters if letter.isalnum())
