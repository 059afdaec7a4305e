"""Declares values that users choose: type, default, bounds and meaning.

  @dataclasses.dataclass(frozen=True, kw_only=True)
  class TermRule(types.SeparableRule):
    t: float = declared.value(1.0, "Tilt; 0 recovers FedAvg.")

Checks, keyword arguments, help texts, flags and parsers use the declarations.
Methods' hyperparameters and runs' settings are declared like this. An
annotation is int, float, bool, str, `Literal[...]` or `Names`, or a union of
these and None. Every wrong value raises `FieldError`. This module does not need
TensorFlow.
"""

import csv
import dataclasses
import functools
import inspect
import io
import math
import numbers
import struct
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypedDict

Value = int | float | str | bool | None
Names = tuple[str, ...]  # In a string, commas separate the names.

# The words by which errors and help texts describe each type.
_WORDS: Mapping[Any, str] = {
  int: "an integer",
  float: "a finite number",
  bool: "true or false",
  str: "a text",
  Names: "names separated by commas",
  types.NoneType: "none",
}
_TRUTH_VALUES = {"true": True, "1": True, "false": False, "0": False}
_KEY = "declared"
_MOST_LETTERS = 100  # The most characters of a value in an error.


class FieldError(ValueError):
  """Raised if an argument, option or setting has an invalid value.

  Attributes:
    field: The argument, option, setting or user function at fault.
    key: The key within the field, if the field is a mapping such as `hparams`.
    value: The invalid value; None if the error shows no value.
    problem: The expected values, or how to fix the problem.
  """

  def __init__(
    self,
    field: str,
    problem: str,
    *,
    key: str | None = None,
    value: object = None,
  ) -> None:
    self.field = field
    self.key = key
    self.value = value
    self.problem = problem
    name = field if key is None else f"{field}[{key!r}]"
    found = "" if value is None else f"={_abbreviate(value)}"
    super().__init__(f"{name}{found}: {problem}")

  def __reduce__(self) -> tuple[object, ...]:
    """Returns the function and arguments by which pickle rebuilds the error."""
    make = functools.partial(type(self), key=self.key, value=self.value)
    return make, (self.field, self.problem)

  def within(self, mapping: str, value: object = None) -> Self:
    """Returns this error as one about a mapping that has the field as a key.

    Args:
      mapping: The name of the mapping.
      value: The invalid value; by default this error's value.
    """
    found = self.value if value is None else value
    return type(self)(mapping, self.problem, key=self.field, value=found)


def _abbreviate(value: object) -> str:
  """Returns a value's `repr`; if that is too long, a part of it or the type."""
  text = repr(value)
  if len(text) <= _MOST_LETTERS:
    return text
  if not isinstance(value, str | numbers.Number | list | tuple | Mapping):
    return f"<{type(value).__name__}>"
  half = _MOST_LETTERS // 2
  return f"{text[:half]} … {text[-half:]}"


# Checks of the arguments of functions and classes.


def as_float32(number: float) -> float:
  """Returns a number rounded to float32: 1e39 becomes infinite, 1e-46 zero."""
  try:
    # `float` overflows for very large integers, and `pack` for large floats.
    single: float = struct.unpack("f", struct.pack("f", float(number)))[0]
  except OverflowError:
    return math.inf if number > 0 else -math.inf
  return single


def check_number(
  name: str,
  number: float,
  *,
  minimum: float = -math.inf,
  maximum: float = math.inf,
  exclude_minimum: bool = False,
  exclude_maximum: bool = False,
  in_float32: bool = False,
) -> None:
  """Raises unless a value is a finite number in an interval.

  A wrong type raises `TypeError`, a wrong value `FieldError`. With
  `in_float32`, the number must also be finite, and differ from excluded bounds,
  after rounding to float32, in which 1e-46 becomes zero.
  """
  if not isinstance(number, numbers.Real) or isinstance(number, bool):
    raise TypeError(
      f"Expected {name} to be a number, found {type(number).__name__}: "
      f"{_abbreviate(number)}."
    )
  too_low = number <= minimum if exclude_minimum else number < minimum
  too_high = number >= maximum if exclude_maximum else number > maximum
  is_wrong = not _is_finite(number) or too_low or too_high
  in_tensors = ""
  if in_float32 and not is_wrong:
    single = as_float32(number)
    is_wrong = (
      math.isinf(single)
      or (exclude_minimum and single <= minimum)
      or (exclude_maximum and single >= maximum)
    )
    in_tensors = f"; in float32 it is {single:g}"
  if is_wrong:
    valid = _interval(minimum, maximum, exclude_minimum, exclude_maximum)
    raise _invalid(name, f"a number in {valid}{in_tensors}", number)


def check_integer(name: str, number: int, *, minimum: float) -> None:
  """Raises unless a value is an integer of at least `minimum`.

  A wrong type raises `TypeError`, a smaller integer `FieldError`.
  """
  if not isinstance(number, numbers.Integral) or isinstance(number, bool):
    raise TypeError(
      f"Expected {name} to be an integer, found {type(number).__name__}: "
      f"{_abbreviate(number)}."
    )
  if number < minimum:
    raise _invalid(name, f"{minimum} or more", number)


def check_choice(name: str, found: str, choices: tuple[str, ...]) -> None:
  """Raises `FieldError` unless `found` is one of the choices."""
  if found not in choices:
    raise _invalid(name, f"one of {', '.join(choices)}", found)


def _invalid(name: str, expected: str, found: object) -> FieldError:
  """Returns the error for a wrong value; `expected` describes valid values."""
  nothing = ", found none" if found is None else ""
  return FieldError(name, f"expected {expected}{nothing}.", value=found)


def _interval(
  minimum: float, maximum: float, exclude_minimum: bool, exclude_maximum: bool
) -> str:
  bounds = (minimum, maximum)
  left = "(" if exclude_minimum or math.isinf(minimum) else "["
  right = ")" if exclude_maximum or math.isinf(maximum) else "]"
  ends = (str(end) if isinstance(end, int) else f"{end:g}" for end in bounds)
  return f"{left}{', '.join(ends)}{right}"


# Checks of values by type annotations, and conversions to and from strings.


def check(name: str, annotation: object, found: object) -> Any:
  """Converts a value to its annotated type; an integer may become a float.

  Raises a `FieldError` about `name` if the value has a wrong type.
  """
  for kind in _alternatives(annotation):
    as_kind = _names(found) if kind == Names else found
    if _accepts(kind, as_kind):
      return kind(found) if kind in (int, float) else as_kind
  raise _invalid(name, describe(annotation), found)


def parse(name: str, annotation: object, text: str) -> Value | Names:
  """Parses a string such as "0.1" or "none", or raises `FieldError`."""
  # Tries None first, since "none" is also a valid str.
  kinds = sorted(
    _alternatives(annotation), key=lambda kind: kind is not types.NoneType
  )
  for kind in kinds:
    try:
      found = _parse_kind(kind, text)
    except ValueError:
      continue
    if _accepts(kind, found):
      return found
  raise _invalid(name, describe(annotation), text)


def assignments(texts: Iterable[str]) -> dict[str, str]:
  """Returns the values of NAME=VALUE strings by name.

  Raises `FieldError` if a string has another form or a name occurs twice.
  """
  found: dict[str, str] = {}
  for text in texts:
    name, equals, value = text.partition("=")
    if not equals or not name:
      raise FieldError(text, "expected NAME=VALUE.")
    if name in found:
      raise FieldError(name, "is given twice.", value=value)
    found[name] = value
  return found


def as_text(found: object) -> str:
  """Returns a value as command-line text, which `parse` reads back."""
  if isinstance(found, list | tuple):
    return ",".join(
      _quoted(name) if isinstance(name, str) else as_text(name)
      for name in found
    )
  if isinstance(found, float):
    return repr(found).removesuffix(".0")
  is_word = found is None or isinstance(found, bool)
  return str(found).lower() if is_word else str(found)


def _quoted(name: str) -> str:
  """Returns a name as a CSV cell, in double quotes if it needs them."""
  if name != name.strip() or any(sign in name for sign in ',"\n\r'):
    return '"' + name.replace('"', '""') + '"'
  return name


def _names(found: object) -> object:
  """Returns a tuple of the names in a list, or in a string that is a CSV row.

  Anything else is returned unchanged.
  """
  if isinstance(found, str):
    lines = io.StringIO(found, newline="")
    try:
      (found,) = csv.reader(lines, skipinitialspace=True)
    except (csv.Error, ValueError):  # A name too long, or not exactly one row.
      return found
  return tuple(found) if isinstance(found, list) else found


def describe(annotation: object) -> str:
  """Returns an annotation in words, such as "an integer or none"."""
  return " or ".join(
    f"one of {', '.join(typing.get_args(kind))}"
    if typing.get_origin(kind) is typing.Literal
    else _WORDS[kind]
    for kind in _alternatives(annotation)
  )


def is_known(annotation: object) -> bool:
  """Returns whether `check` and `parse` support an annotation."""
  return all(
    any(kind == known for known in _WORDS)
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


def _accepts(kind: Any, found: object) -> bool:
  if typing.get_origin(kind) is typing.Literal:
    return isinstance(found, str) and found in typing.get_args(kind)
  if kind in (bool, str, types.NoneType):
    return isinstance(found, kind)
  if kind == Names:
    return isinstance(found, tuple) and _are_names(found)
  # Python's bool is an int, but `num_clients=True` is a mistake.
  if isinstance(found, bool):
    return False
  if kind is int:
    return isinstance(found, numbers.Integral)
  return isinstance(found, numbers.Real) and _is_finite(found)


def _are_names(found: tuple[object, ...]) -> bool:
  return found != () and all(isinstance(n, str) and n for n in found)


def _is_finite(number: numbers.Real) -> bool:
  try:
    return math.isfinite(number)
  except OverflowError:  # An integer beyond the range of floats.
    return False


def _parse_kind(kind: Any, text: str) -> Any:
  if kind == Names:
    return _names(text)
  if kind is bool:
    return _TRUTH_VALUES.get(text.lower())
  if kind is types.NoneType:
    return None if text.lower() == "none" else text
  return kind(text) if kind in (int, float) else text


# Functions and classes that declare fields of dataclasses.


class Bounds(TypedDict, total=False):
  """The bounds on a field's values; see `Field`."""

  minimum: float
  maximum: float
  exclude_minimum: bool
  exclude_maximum: bool
  in_float32: bool
  expects: str
  is_valid: Callable[[Any], object]


BELOW_1: Bounds = {"minimum": 0, "maximum": 1, "exclude_maximum": True}
BETWEEN_0_AND_1: Bounds = {**BELOW_1, "exclude_minimum": True}
ABOVE_0: Bounds = {"minimum": 0, "exclude_minimum": True}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
  """A declared field and its valid values.

  Attributes:
    name: The name of the field.
    annotation: The type of its values.
    default: The default; `dataclasses.MISSING` if the caller must give a value.
    meaning: The meaning, in sentences for users.
    minimum: The least number allowed.
    maximum: The greatest number allowed.
    exclude_minimum: Whether `minimum` itself is not allowed.
    exclude_maximum: Whether `maximum` itself is not allowed.
    in_float32: Whether the value is for float32 tensors; see `check_number`.
    expects: The valid values in words; by default derived from the type.
    is_valid: A check beyond the bounds: returns whether a value is valid.
    decides: Whether the value affects the results of a run.
  """

  name: str
  annotation: Any
  default: Any
  meaning: str
  minimum: float = -math.inf
  maximum: float = math.inf
  exclude_minimum: bool = False
  exclude_maximum: bool = False
  in_float32: bool = False
  expects: str = ""
  is_valid: Callable[[Any], object] = lambda _: True
  decides: bool = True

  @property
  def is_required(self) -> bool:
    """Whether the field has no default."""
    return self.default is dataclasses.MISSING

  @property
  def interval(self) -> str:
    """The interval of valid numbers, such as "[0, 1)"; empty if unbounded."""
    if math.isinf(self.minimum) and math.isinf(self.maximum):
      return ""
    return _interval(
      self.minimum, self.maximum, self.exclude_minimum, self.exclude_maximum
    )

  @property
  def choices(self) -> tuple[str, ...]:
    """The valid strings of a `Literal` type; empty for other types."""
    literals = (
      kind
      for kind in _alternatives(self.annotation)
      if typing.get_origin(kind) is typing.Literal
    )
    return next(map(typing.get_args, literals), ())

  @property
  def expected(self) -> str:
    """The valid values, in words."""
    within = f", in {self.interval}" if self.interval else ""
    return self.expects or f"{describe(self.annotation)}{within}"

  def check(self, found: Any) -> Any:
    """Converts a value to the field's type; an integer may become a float.

    Raises `FieldError` if the value has a wrong type or is not valid.
    """
    try:
      found = check(self.name, self.annotation, found)
    except FieldError as error:
      raise self._invalid(found) from error
    self._check_value(found)
    return found

  def accepts(self, found: Any) -> bool:
    """Returns whether a value is valid."""
    try:
      self.check(found)
    except FieldError:
      return False
    return True

  def validate(self, found: Any) -> None:
    """Checks a value like `check`, with the errors that Python callers expect.

    A wrong type raises `TypeError`, and an invalid value `FieldError`.
    """
    kinds = _alternatives(self.annotation)
    if not any(_accepts(kind, found) for kind in kinds):
      kind = next(k for k in kinds if k is not types.NoneType)
      if typing.get_origin(kind) is typing.Literal:
        check_choice(self.name, found, typing.get_args(kind))
      elif kind is float:  # NaN is a wrong value, not a wrong type.
        self._check_bounds(found)
      raise TypeError(
        f"Expected {self.name} to be {describe(kind)}, found "
        f"{type(found).__name__}: {_abbreviate(found)}."
      )
    self._check_value(found)

  def parse(self, text: str) -> Any:
    """Parses a string and checks the value; raises `FieldError` if invalid."""
    return self.check(self.read(text))

  def read(self, text: str) -> Value | Names:
    """Parses a string like `parse`, but does not check the bounds.

    Raises `FieldError` if the string cannot be parsed as the field's type.
    """
    try:
      return parse(self.name, self.annotation, text)
    except FieldError:
      raise self._invalid(text) from None

  def _invalid(self, found: object) -> FieldError:
    return _invalid(self.name, self.expected, found)

  def _check_value(self, found: Any) -> None:
    """Raises `FieldError` if a value of the right type is not valid."""
    if found is None:
      return
    if isinstance(found, numbers.Real) and not isinstance(found, bool):
      self._check_bounds(found)
    try:
      is_valid = self.is_valid(found)
    except ValueError:  # `is_valid` could not parse a string.
      is_valid = False
    if not is_valid:
      raise self._invalid(found)

  def _check_bounds(self, number: Any) -> None:
    if self.expects:
      # `expects` states the bounds, so the error does not repeat them.
      try:
        self._check_number(number)
      except FieldError:
        raise self._invalid(number) from None
    elif float not in _alternatives(self.annotation) and math.isinf(
      self.maximum
    ):
      check_integer(self.name, number, minimum=self.minimum)
    else:
      self._check_number(number)

  def _check_number(self, number: float) -> None:
    check_number(
      self.name,
      number,
      minimum=self.minimum,
      maximum=self.maximum,
      exclude_minimum=self.exclude_minimum,
      exclude_maximum=self.exclude_maximum,
      in_float32=self.in_float32,
    )


def value(
  default: Any,
  meaning: str,
  *,
  decides: bool = True,
  **bounds: typing.Unpack[Bounds],
) -> Any:
  """Declares a field of a dataclass.

  Args:
    default: The default.
    meaning: The meaning, in sentences for users.
    decides: Whether the value affects the results of a run.
    **bounds: The limits on the field's values; see `Field`.
  """
  known = {"meaning": meaning, "decides": decides, **bounds}
  return dataclasses.field(default=default, metadata={_KEY: known})


def required(meaning: str, **bounds: typing.Unpack[Bounds]) -> Any:
  """Declares a field without a default.

  A method takes the field's value from the builder's option of the same name,
  as AFL takes `num_clients`.

  Args:
    meaning: The meaning, in sentences for users.
    **bounds: The limits on the field's values; see `Field`.
  """
  return value(dataclasses.MISSING, meaning, **bounds)


def positive_integer(
  default: int | None, meaning: str, *, decides: bool = True
) -> Any:
  """Declares a field that takes 1, 2, 3, ..."""
  expects = "a positive integer" + (" or none" * (default is None))
  return value(default, meaning, expects=expects, minimum=1, decides=decides)


def positive_number(
  default: float | None, meaning: str, *, decides: bool = True
) -> Any:
  """Declares a field that takes finite, positive float32 numbers."""
  expects = "a positive, finite number" + (" or none" * (default is None))
  return value(
    default,
    meaning,
    expects=f"{expects} (in float32)",
    minimum=0,
    exclude_minimum=True,
    in_float32=True,
    decides=decides,
  )


def fields_of(cls: type) -> Mapping[str, Field]:
  """Returns the declared fields of a dataclass by name, in order.

  If a subclass only changes a field's default, the declaration still applies.
  """
  return _fields_of(cls)  # mypy does not take classes as hashable arguments.


@functools.cache
def _fields_of(cls: Any) -> Mapping[str, Field]:
  if not dataclasses.is_dataclass(cls):
    return {}
  hints = typing.get_type_hints(cls)
  known = {
    name: field.metadata[_KEY]
    for base in reversed(cls.__mro__)
    for name, field in getattr(base, "__dataclass_fields__", {}).items()
    if _KEY in field.metadata
  }
  return {
    field.name: Field(
      name=field.name,
      annotation=hints[field.name],
      default=field.default,
      **known[field.name],
    )
    for field in dataclasses.fields(cls)
    if field.name in known
  }


class Hyperparameters:
  """Base class of frozen dataclasses that check their declared fields."""

  def __post_init__(self) -> None:
    """Checks each value; raises `TypeError` or `FieldError`."""
    for name, field in fields_of(type(self)).items():
      field.validate(getattr(self, name))


def add_to_signature(
  signature: inspect.Signature, fields: Iterable[Field]
) -> inspect.Signature:
  """Returns a signature in which keywords for `fields` precede **options."""
  *first, options = signature.parameters.values()
  keywords = [
    inspect.Parameter(
      field.name,
      inspect.Parameter.KEYWORD_ONLY,
      default=inspect.Parameter.empty if field.is_required else field.default,
      annotation=field.annotation,
    )
    for field in fields
  ]
  return signature.replace(parameters=[*first, *keywords, options])


def document(fields: Iterable[Field]) -> str:
  """Returns the lines for `fields` in the "Args" section of a docstring."""
  return "\n".join(
    textwrap.fill(
      f"{field.name}: {field.meaning}"
      + (f" In {field.interval}." if field.interval else ""),
      width=80,
      initial_indent="  ",
      subsequent_indent="    ",
    )
    for field in fields
  )
