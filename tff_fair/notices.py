"""Notifies users of facts that they should know, though nothing is wrong.

Notices are Python warnings, so a script can silence them or make them errors.
"""

import warnings
from typing import Any

from tff_fair import escaping

_registry: dict[Any, Any] = {}  # So that Python shows each notice once.


class Notice(UserWarning):
  """A notice for the user."""


def notify(text: str) -> None:
  """Warns with `text` in one line, without the source line that Python adds."""
  warnings.warn_explicit(
    escaping.line(text), Notice, "tff_fair", 0, registry=_registry
  )
