"""Notices: what a user should know about tasks and data; nothing is wrong.

They are Python's warnings, so that a script can turn them off or into errors.
"""

import pathlib
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tff_fair import escaping

_shown: dict[Any, Any] = {}  # So that Python shows each notice once.


class Notice(UserWarning):
  """What a user should know."""


def notify(text: str) -> None:
  """Warns in one line: Python adds the line of a source, if there is one."""
  warnings.warn_explicit(
    escaping.line(text), Notice, "tff_fair", 0, registry=_shown
  )


_MOST_ENDINGS = 5


def endings(files: Iterable[pathlib.Path]) -> Counter[str]:
  """Counts files by their endings, or names where they have none.

  Those of the system, whose names begin with a dot, do not count.
  """
  return Counter(
    file.suffix.lower() or file.name
    for file in files
    if file.is_file() and not file.name.startswith(".")
  )


def notify_left_out(
  place: object, files: Iterable[pathlib.Path], taken: Sequence[str]
) -> None:
  """Warns of files that are left out, if there are some; counts them."""
  found = endings(files)
  if not found:
    return
  shown = [f"{n:,} {end}" for end, n in found.most_common(_MOST_ENDINGS)]
  if len(found) > _MOST_ENDINGS:
    shown.append("others")
  notify(
    f"{place}: files that are left out: {found.total():,} "
    f"({', '.join(shown)}); read are {', '.join(taken)}."
  )
