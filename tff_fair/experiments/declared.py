"""Dataclass fields that say what they mean and which values they take.

One declaration serves the check in Python, the reader of text, the command line
and its help. Needs no TensorFlow.
"""

import dataclasses
import functools
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

from tff_fair import checks, typed_values
from tff_fair.typed_values import Value

_KEY = "declared"

# Takes a value of the field's type.
IsValid = Callable[[Any], bool]


class Bounds(TypedDict):
  """Which values of a type are valid, in words and in code; see `Declared`."""

  expects: str
  is_valid: IsValid


def _any_of_its_type(_: object) -> bool:
  return True


class Declared(NamedTuple):
  """What is known of a field.

  Attributes:
    name: Its name.
    annotation: The type of its values; see `tff_fair.typed_values`.
    default: Its value where none is given.
    meaning: What it is for, in sentences for users.
    expects: What values are valid, in words, beyond their type; may be empty.
    is_valid: Whether a value of the type is valid.
    decides: Whether it decides the results of a run.
  """

  name: str
  annotation: object
  default: Value
  meaning: str
  expects: str = ""
  is_valid: IsValid = _any_of_its_type
  decides: bool = True

  def check(self, value: Any) -> Value:
    """Returns a value in its annotated type.

    Raises:
      ValueError: If it is not valid; the text says what is.
    """
    try:
      value = typed_values.check(self.name, self.annotation, value)
      if value is None or self.is_valid(value):
        return value
    except ValueError:
      pass
    raise ValueError(f"expected {self.expected}, found {value!r}")

  def parse(self, text: str) -> Value:
    """Reads a value from text, as a command line has it.

    Raises:
      ValueError: If the text is no valid value.
    """
    return self.check(self.read(text))

  def read(self, text: str) -> Value:
    """Reads a value of the type from text; it may not be valid.

    Raises:
      ValueError: If the text is no value of the type.
    """
    try:
      return typed_values.parse(self.name, self.annotation, text)
    except ValueError:
      raise ValueError(f"expected {self.expected}, found {text!r}") from None

  @property
  def choices(self) -> tuple[str, ...]:
    """The texts that are valid, where there is a list of them."""
    kinds = (self.annotation, *typing.get_args(self.annotation))
    literals = (k for k in kinds if typing.get_origin(k) is typing.Literal)
    return next(map(typing.get_args, literals), ())

  @property
  def expected(self) -> str:
    """What values are valid, in words."""
    return self.expects or typed_values.describe(self.annotation)


def value(
  default: Value,
  meaning: str,
  *,
  expects: str = "",
  is_valid: IsValid = _any_of_its_type,
  decides: bool = True,
) -> Any:
  """Declares a field of a dataclass; see `Declared`."""
  settings = {
    "default": default,
    "meaning": meaning,
    "expects": expects,
    "is_valid": is_valid,
    "decides": decides,
  }
  return dataclasses.field(default=default, metadata={_KEY: settings})


def positive_integer(
  default: int | None, meaning: str, *, decides: bool = True
) -> Any:
  """Declares a field that takes 1, 2, 3, ..."""
  return value(
    default,
    meaning,
    expects="a positive integer" + (" or none" * (default is None)),
    is_valid=lambda number: number >= 1,
    decides=decides,
  )


def positive_number(default: float | None, meaning: str) -> Any:
  """Declares a field that takes numbers that are finite, positive float32s."""
  return value(
    default,
    meaning,
    expects="a positive, finite number"
    + (" or none" * (default is None))
    + " (in float32)",
    is_valid=lambda number: 0 < checks.as_float32(number) < math.inf,
  )


def fields_of(cls: type) -> Mapping[str, Declared]:
  """Returns the declared fields of a dataclass by name, in their order."""
  return _fields_of(cls)


@functools.cache
def _fields_of(cls: Any) -> Mapping[str, Declared]:
  hints = typing.get_type_hints(cls)
  return {
    field.name: Declared(field.name, hints[field.name], **field.metadata[_KEY])
    for field in dataclasses.fields(cls)
    if _KEY in field.metadata
  }
