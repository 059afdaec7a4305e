"""Values of annotated types: checked, written as text and read from it.

An annotation is int, float, bool, str or `Literal[...]`, or a union of these
and None. Options of tasks, hyperparameters and settings of runs all use it, so
that Python, TOML and a command line take the same values. Needs no TensorFlow.
"""

import math
import numbers
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from tff_fair import spelling

Value = int | float | str | bool | None

# The types of values, in words.
_WORDS: Mapping[Any, str] = {
  int: "an integer",
  float: "a finite number",
  bool: "true or false",
  str: "a text",
  types.NoneType: "none",
}
_TRUTH_VALUES = {"true": True, "1": True, "false": False, "0": False}


def check(name: str, annotation: object, value: object) -> Any:
  """Returns a value in its annotated type: an integer as a float, say.

  Args:
    name: The name of the value, for the error.
    annotation: The type it must have.
    value: The value.

  Raises:
    ValueError: If the value is not of the type.
  """
  for kind in _alternatives(annotation):
    if _accepts(kind, value):
      return kind(value) if kind in (int, float) else value
  raise ValueError(_invalid(name, annotation, value))


def parse(name: str, annotation: object, text: str) -> Value:
  """Reads a value from text, as a command line has it.

  Args:
    name: The name of the value, for the error.
    annotation: The type it must have.
    text: The text, such as "0.1", "true" or "none".

  Raises:
    ValueError: If the text is no value of the type.
  """
  # None first: to a text, "none" would be a text like any other.
  kinds = sorted(
    _alternatives(annotation), key=lambda kind: kind is not types.NoneType
  )
  for kind in kinds:
    try:
      value = _parse_kind(kind, text)
    except ValueError:
      continue
    if _accepts(kind, value):
      return value
  raise ValueError(_invalid(name, annotation, text))


def parse_assignments(
  annotations: Mapping[str, object], assignments: Iterable[str], *, what: str
) -> dict[str, Value]:
  """Reads `name=value` texts.

  Args:
    annotations: The annotated type of each valid name.
    assignments: Texts such as `num_clients=100` or `num_clients=none`.
    what: What the names are, for errors: "option", "hyperparameter".

  Returns:
    The values by name.

  Raises:
    ValueError: If a text is no assignment, its name is unknown or comes twice,
      or its value is not of the type.
  """
  values: dict[str, Value] = {}
  for assignment in assignments:
    name, equals, text = assignment.partition("=")
    if not equals:
      raise ValueError(f"{assignment!r} is not of the form name=value.")
    check_names([name], annotations, what=what)
    if name in values:
      raise ValueError(f"{name} is given twice.")
    values[name] = parse(name, annotations[name], text)
  return values


def check_names(
  names: Iterable[str], valid: Iterable[str], *, what: str
) -> None:
  """Raises `ValueError` if one of `names` is not valid; says which are."""
  valid = list(valid)
  if unknown := [name for name in names if name not in valid]:
    raise ValueError(
      f"unknown {what} {', '.join(map(repr, unknown))}; "
      f"{spelling.advice(unknown[0], valid, f'{what}s', always_all=True)}"
    )


def text(value: object) -> str:
  """Returns a value as a command line takes it; `parse` reads it back."""
  if isinstance(value, list | tuple):
    return ",".join(map(text, value))
  if isinstance(value, float):
    return repr(value).removesuffix(".0")
  is_word = value is None or isinstance(value, bool)
  return str(value).lower() if is_word else str(value)


def describe(annotation: object) -> str:
  """Returns an annotation in words, as "an integer or none"."""
  return " or ".join(map(_describe, _alternatives(annotation)))


def is_known(annotation: object) -> bool:
  """Returns whether values of an annotated type can be checked and read."""
  return all(
    any(kind is known for known in _WORDS)
    or (
      typing.get_origin(kind) is typing.Literal
      and all(isinstance(choice, str) for choice in typing.get_args(kind))
    )
    for kind in _alternatives(annotation)
  )


def _alternatives(annotation: object) -> tuple[Any, ...]:
  if typing.get_origin(annotation) in (typing.Union, types.UnionType):
    return typing.get_args(annotation)
  return (annotation,)


def _accepts(kind: Any, value: object) -> bool:
  if typing.get_origin(kind) is typing.Literal:
    return isinstance(value, str) and value in typing.get_args(kind)
  if kind in (bool, str, types.NoneType):
    return isinstance(value, kind)
  # Python's bool is an int, but `num_clients=True` is a mistake.
  if isinstance(value, bool):
    return False
  if kind is int:
    return isinstance(value, numbers.Integral)
  try:
    return isinstance(value, numbers.Real) and math.isfinite(value)
  except OverflowError:  # An integer beyond the range of floats.
    return False


def _parse_kind(kind: Any, text: str) -> Value:
  if kind is bool:
    return _TRUTH_VALUES.get(text.lower())
  if kind is types.NoneType:
    return None if text.lower() == "none" else text
  return kind(text) if kind in (int, float) else text


def _invalid(name: str, annotation: object, found: object) -> str:
  return f"{name} must be {describe(annotation)}, found {found!r}."


def _describe(kind: Any) -> str:
  if typing.get_origin(kind) is typing.Literal:
    return f"one of {', '.join(typing.get_args(kind))}"
  return _WORDS[kind]
