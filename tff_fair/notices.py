"""Notices: what a user should know, where nothing is wrong.

They are Python's warnings, so that a script can turn them off or into errors.
"""

import warnings
from typing import Any

from tff_fair import escaping

_told: dict[Any, Any] = {}  # So that Python shows each notice once.


class Notice(UserWarning):
  """A notice for the user."""


def notify(text: str) -> None:
  """Warns in one line: Python adds the line of a source, if there is one."""
  warnings.warn_explicit(
    escaping.line(text), Notice, "tff_fair", 0, registry=_told
  )
