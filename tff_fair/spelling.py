"""Names as people spell them: understood, guessed at, or listed.

A name is understood where case, "-", "_" and "+" for "plus" are all that it
differs in from a known one: "FedMGDA+" is fedmgda_plus.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence

# Of two names with this share of letters in common, one may mean the other.
_SIMILAR = 0.75
_MOST_GUESSES = 3


def understood(name: str, known: Iterable[str]) -> str:
  """Returns the known name that a name spells; if there is none, the name."""
  known = list(known)
  if name in known:
    return name
  found = [other for other in known if _letters(other) == _letters(name)]
  return found[0] if len(found) == 1 else name


def guesses(name: str, known: Iterable[str]) -> list[str]:
  """Returns the known names that a name may mean, the nearest first."""
  known = list(known)
  # Of "rounds", total_rounds.
  if longer := [n for n in known if name.casefold() in n.casefold().split("_")]:
    return sorted(longer, key=len)[:_MOST_GUESSES]
  near = difflib.get_close_matches(
    _letters(name), {*map(_letters, known)}, n=_MOST_GUESSES, cutoff=_SIMILAR
  )
  return [n for spelling in near for n in known if _letters(n) == spelling]


def question(
  name: str,
  known: Iterable[str],
  otherwise: str = "",
  *,
  shown: Callable[[str], str] = str,
) -> str:
  """Returns the question which known name a name means."""
  near = " or ".join(map(shown, guesses(name, known)))
  return f"did you mean {near}?" if near else otherwise


def advice(
  name: str, known: Iterable[str], what: str, *, always_all: bool = False
) -> str:
  """Returns the hint shown for an unknown name.

  It guesses, or, where nothing is similar, names all; `always_all` adds them to
  a guess, too. `what` is their name in the plural, or "".
  """
  known = list(known)
  heading = f"valid {what}" if what else "valid"
  every = f"{heading}: {', '.join(known) or 'none'}."
  asked = question(name, known, every)
  return f"{asked} {every}" if always_all and asked != every else asked


def listed(names: Sequence[str], most: int = 10) -> str:
  """Returns names, at most so many: "a, b and 3 more"."""
  more = len(names) - most
  return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _letters(name: str) -> str:
  letters = name.casefold().replace("+", "plus")
  return "".join(letter for letter in letters if letter.isalnum())
