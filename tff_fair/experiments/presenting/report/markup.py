"""Markup that is safe by construction: all other text is escaped.

Elements are written so that they are well-formed XML and HTML at once.
"""

from collections.abc import Iterable
from typing import TypeAlias

from tff_fair import escaping

# Elements to write <like this/>: HTML's void elements, and shapes of SVG.
_EMPTY = frozenset({"input", "link", "meta", "path"})


class Markup(str):
  """Text that is markup already."""

  __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"


def element(
  tag: str, /, *children: Child, **attributes: str | float | bool | None
) -> Markup:
  """Returns an element."""
  words = [tag]
  for key, value in attributes.items():
    if value is not None and value is not False:
      name = key.removesuffix("_").replace("_", "-")
      words.append(f'{name}="{escape(name if value is True else str(value))}"')
  start = " ".join(words)
  if tag in _EMPTY and not children:
    return Markup(f"<{start}/>")
  return Markup(f"<{start}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
  """Returns children as `element` takes them, one after the other."""
  parts = []
  for child in children:
    if isinstance(child, Markup):
      parts.append(child)
    elif isinstance(child, str | int):
      parts.append(escape(str(child)))
    elif child is not None:
      parts.append(joined(*child))
  return Markup("".join(parts))


def escape(text: str) -> Markup:
  """Returns text as markup that shows it, in an element or an attribute."""
  return Markup(escaping.html(text))
