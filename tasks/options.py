"""Options of a task: a dataclass whose annotations say what is valid.

Fields are annotated int, float, bool, str or `Literal[...]`, or one of these
or None (`int | None`). The annotation checks the values given in Python and
reads those given as text on a command line.
"""

import dataclasses
import math
import numbers
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

_TRUTH_VALUES = {"true": True, "1": True, "false": False, "0": False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
  """Base of all options; checks that each value is of its field's type."""

  def __post_init__(self) -> None:
    for name, annotation in _annotations(type(self)).items():
      value = getattr(self, name)
      if not any(_accepts(kind, value) for kind in _alternatives(annotation)):
        raise ValueError(_invalid(name, annotation, value))

  def require(self, name: str, condition: bool, expected: str) -> None:
    """Raises ValueError that says what was expected unless condition holds."""
    if not condition:
      raise ValueError(
        f"{name} must be {expected}, found {getattr(self, name)!r}."
      )


def parse(
  options_type: type[TaskOptions], assignments: Iterable[str]
) -> dict[str, Any]:
  """Reads `name=value` texts to the types that the options have.

  Args:
    options_type: The options of one task.
    assignments: Texts such as `num_clients=100` or `num_clients=none`.

  Returns:
    The values by name, ready to be given to `options_type`.

  Raises:
    ValueError: If a text is no assignment, names no option or one that came
      before, or its value is not of the option's type.
  """
  annotations = _annotations(options_type)
  values: dict[str, Any] = {}
  for assignment in assignments:
    name, equals, text = assignment.partition("=")
    if not equals:
      raise ValueError(f"{assignment!r} is not of the form name=value.")
    check_names(options_type, [name])
    if name in values:
      raise ValueError(f"{name} is given twice.")
    values[name] = _parse_value(name, annotations[name], text)
  return values


def check_names(options_type: type[TaskOptions], names: Iterable[str]) -> None:
  """Raises ValueError that lists the valid names if one of names is unknown."""
  valid = [field.name for field in dataclasses.fields(options_type)]
  unknown = [name for name in names if name not in valid]
  if unknown:
    raise ValueError(
      f"unknown option {', '.join(map(repr, unknown))}; "
      f"valid options: {', '.join(valid)}."
    )


def _annotations(options_type: type[TaskOptions]) -> Mapping[str, Any]:
  hints = typing.get_type_hints(options_type)
  return {f.name: hints[f.name] for f in dataclasses.fields(options_type)}


def _alternatives(annotation: Any) -> tuple[Any, ...]:
  if typing.get_origin(annotation) in (typing.Union, types.UnionType):
    return typing.get_args(annotation)
  return (annotation,)


def _accepts(kind: Any, value: Any) -> bool:
  if typing.get_origin(kind) is typing.Literal:
    return value in typing.get_args(kind)
  if kind in (bool, str, types.NoneType):
    return isinstance(value, kind)
  # Python's bool is an int, but `num_clients=True` is a mistake.
  if isinstance(value, bool):
    return False
  if kind is int:
    return isinstance(value, numbers.Integral)
  return isinstance(value, numbers.Real) and math.isfinite(value)


def _parse_value(name: str, annotation: Any, text: str) -> Any:
  # None first: to a text, "none" would be a text like any other.
  for kind in sorted(
    _alternatives(annotation), key=lambda kind: kind is not types.NoneType
  ):
    try:
      value = _parse_kind(kind, text)
    except ValueError:
      continue
    if _accepts(kind, value):
      return value
  raise ValueError(_invalid(name, annotation, text))


def _parse_kind(kind: Any, text: str) -> Any:
  if kind is bool:
    return _TRUTH_VALUES.get(text.lower())
  if kind is types.NoneType:
    return None if text.lower() == "none" else text
  return kind(text) if kind in (int, float) else text


def _invalid(name: str, annotation: Any, found: Any) -> str:
  expected = " or ".join(map(_describe, _alternatives(annotation)))
  return f"{name} must be {expected}, found {found!r}."


def _describe(kind: Any) -> str:
  if typing.get_origin(kind) is typing.Literal:
    return f"one of {', '.join(typing.get_args(kind))}"
  return {
    int: "an integer",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    types.NoneType: "none",
  }[kind]
