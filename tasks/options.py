"""Options of a task: a dataclass whose annotations are the valid types.

`tff_fair.declared` says which annotations there are. They check the values
given in Python and read those given as text on a command line.
"""

import dataclasses
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from tff_fair import declared, spelling

Value = declared.Value

_Options = typing.TypeVar("_Options", bound="TaskOptions")
# A section of a docstring: its lines are indented, or empty.
_SECTION = r"^{}:\n((?:[ \t]+.*\n|\n)*)"
_MEANING = re.compile(
  r"^(\w+)(?: \([^)\n]*\))?: (.*(?:\n[ \t]+.*)*)", re.MULTILINE
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
  """Base of all options; brings each value to its field's type.

  A subclass makes further checks in `__post_init__`, and explains its options
  under "Attributes" of its docstring (`meanings`).
  """

  def __post_init__(self) -> None:
    for name, annotation in annotations(type(self)).items():
      value = declared.check(name, annotation, getattr(self, name))
      object.__setattr__(self, name, value)  # The dataclass is frozen.

  def require(self, name: str, condition: bool, expected: str) -> None:
    """Raises a FieldError with the expected value unless condition holds."""
    if not condition:
      raise declared.FieldError(
        name, f"expected {expected}.", value=getattr(self, name)
      )

  def require_at_least(self, least: float, *names: str) -> None:
    """Raises a FieldError unless each option is so large, or none."""
    for name in names:
      value = getattr(self, name)
      kinds = typing.get_args(annotations(type(self))[name])
      or_none = ", or none" if types.NoneType in kinds else ""
      self.require(
        name, value is None or value >= least, f"at least {least:g}{or_none}"
      )

  def to_dict(self) -> dict[str, Value]:
    """Returns the values by name."""
    return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


def annotations(options_type: type) -> Mapping[str, object]:
  """Returns the annotated type of each option."""
  return _annotations(options_type)


@functools.cache
def _annotations(options_type: Any) -> Mapping[str, object]:
  hints = typing.get_type_hints(options_type)
  return {f.name: hints[f.name] for f in dataclasses.fields(options_type)}


def meanings(options_type: type[TaskOptions]) -> dict[str, str]:
  """Returns the meaning of each option, from the docstrings of its classes.

  Returns:
    Texts without line breaks by name, in the order of the options.
  """
  found: dict[str, str] = {}
  for base in reversed(options_type.__mro__):
    found |= explained(base.__doc__ or "", "Attributes")
  return {name: found[name] for name in annotations(options_type)}


def explained(docstring: str, title: str) -> dict[str, str]:
  """Returns the texts of names that a docstring in Google's style explains.

  Returns:
    Texts without line breaks by name.
  """
  section = re.search(
    _SECTION.format(title), f"{inspect.cleandoc(docstring)}\n", re.MULTILINE
  )
  lines = textwrap.dedent(section[1]) if section else ""
  return {
    name: " ".join(text.split()) for name, text in _MEANING.findall(lines)
  }


def build(
  options_type: type[_Options], values: Mapping[str, object]
) -> _Options:
  """Returns options with some values, and defaults for the others."""
  _check_names(values, annotations(options_type))
  return options_type(**values)


def parse(
  options_type: type[TaskOptions], assignments: Iterable[str]
) -> dict[str, Value]:
  """Reads `name=value` texts to the types that the options have.

  Returns:
    The values by name, ready to be given to `options_type`.
  """
  valid = annotations(options_type)
  texts = declared.assignments(assignments)
  _check_names(texts, valid)
  return {n: declared.parse(n, valid[n], text) for n, text in texts.items()}


def shape_of(text: str) -> tuple[int, ...] | None:
  """Returns the shape that a text such as "28x28" says; None if it says none.

  Two sides are those of an image with one channel.
  """
  sides = text.split("x")
  if len(sides) not in (2, 3) or not all(s.isdecimal() for s in sides):
    return None
  shape = tuple(map(int, sides)) + (1,) * (len(sides) == 2)
  return shape if min(shape) >= 1 else None


def _check_names(names: Iterable[str], valid: Iterable[str]) -> None:
  if unknown := [name for name in names if name not in valid]:
    advice = spelling.advice(unknown[0], valid, "options", always_all=True)
    raise ValueError(
      f"unknown option {', '.join(map(repr, unknown))}; {advice}"
    )
