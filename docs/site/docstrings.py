"""Extension of griffe: what a docstring shows on its page."""

import re
from typing import Any

import griffe

# Where the sections of Google style begin.
_SECTIONS = re.compile(r"^\w+:\n", re.MULTILINE)
# Lines that are all indented, between empty ones.
_FORMULA = re.compile(r"(?<=\n\n)(?:  +\S.*\n?)+(?=\n|\Z)")


# What says nothing of its own is left out, and so are the builders of methods:
# pages.py shows them with their hyperparameters.
_SAYS_NOTHING = "See the base class."
_BUILDER = re.compile(r"tff_fair\.methods\.\w+\.build_\w+")


class Docstrings(griffe.Extension):
  """Shows the formulas of docstrings as they stand, and no name twice."""

  def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
    """Changes one documented object."""
    text = obj.docstring.value if obj.docstring else ""
    if text == _SAYS_NOTHING or _BUILDER.fullmatch(obj.path):
      obj.public = False
    elif obj.docstring:
      sections = _SECTIONS.search(text)
      end = sections.start() if sections else len(text)
      obj.docstring.value = fence(text[:end]) + text[end:]


def fence(text: str) -> str:
  """Returns a text with fences around indented lines."""
  return _FORMULA.sub(
    lambda found: f"```text\n{found[0].rstrip()}\n```\n", text
  )
