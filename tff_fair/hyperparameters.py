"""Hyperparameters: each is declared once, with default, bounds and meaning.

  @dataclasses.dataclass(frozen=True, kw_only=True)
  class TermRule(types.SeparableRule):
    t: float = hparam(1.0, "Tilt; 0 recovers FedAvg.")

The checks, the keywords and the help of builders and factories come from there.
Needs no TensorFlow.
"""

import dataclasses
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Iterable
from typing import Any

from tff_fair import checks, typed_values

_DECLARATION = "hyperparameter"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hyperparameter:
  """A hyperparameter of a method.

  Attributes:
    name: Its name.
    annotation: Its type: float, int, bool, str or a `Literal` of texts, or one
      of these or None.
    default: Its default; `dataclasses.MISSING` where the caller must say it.
    meaning: Its meaning, a sentence.
    minimum: The least value allowed.
    maximum: The greatest value allowed.
    exclude_minimum: Whether `minimum` itself is not allowed.
    exclude_maximum: Whether `maximum` itself is not allowed.
    in_float32: Whether float32 tensors hold it, see `checks.check_number`.
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

  @property
  def is_required(self) -> bool:
    """Whether it has no default."""
    return self.default is dataclasses.MISSING

  @property
  def interval(self) -> str:
    """The numbers allowed, as "[0, 1)"; empty where all are."""
    if math.isinf(self.minimum) and math.isinf(self.maximum):
      return ""
    return checks.interval(
      self.minimum, self.maximum, self.exclude_minimum, self.exclude_maximum
    )

  def check(self, value: Any) -> Any:
    """Returns a value in the hyperparameter's type: an integer as a float, say.

    Raises:
      OptionError: If the value is of another type, or out of bounds.
    """
    try:
      value = typed_values.check(self.name, self.annotation, value)
    except ValueError as error:
      raise checks.OptionError(self.name, str(error)) from error
    self.validate(value)
    return value

  def validate(self, value: Any) -> None:
    """Checks a value, as `check` does, but for errors of Python callers.

    Raises:
      TypeError: If the value is of another type.
      OptionError: If it is out of bounds, or none of the texts allowed.
    """
    kinds = typing.get_args(self.annotation)
    kind = self.annotation
    if isinstance(kind, types.UnionType):
      if value is None and types.NoneType in kinds:
        return
      kind = next(k for k in kinds if k is not types.NoneType)
    if typing.get_origin(kind) is typing.Literal:
      checks.check_choice(self.name, value, typing.get_args(kind))
    elif kind is bool:
      checks.check_boolean(self.name, value)
    elif kind is int:
      checks.check_integer(self.name, value, minimum=self.minimum)
      if not math.isinf(self.maximum):
        self._check_number(value)
    elif kind is float:
      self._check_number(value)
    elif not isinstance(value, str):
      raise TypeError(
        f"Expected {self.name} to be a text, found {type(value).__name__}: "
        f"{value!r}."
      )

  def _check_number(self, value: float) -> None:
    checks.check_number(
      self.name,
      value,
      minimum=self.minimum,
      maximum=self.maximum,
      exclude_minimum=self.exclude_minimum,
      exclude_maximum=self.exclude_maximum,
      in_float32=self.in_float32,
    )


def hparam(
  default: Any,
  meaning: str,
  *,
  minimum: float = -math.inf,
  maximum: float = math.inf,
  exclude_minimum: bool = False,
  exclude_maximum: bool = False,
  in_float32: bool = False,
) -> Any:
  """Returns a dataclass field that declares a hyperparameter.

  Args:
    default: Its default.
    meaning: Its meaning, a sentence.
    minimum: The least value allowed.
    maximum: The greatest value allowed.
    exclude_minimum: Whether `minimum` itself is not allowed.
    exclude_maximum: Whether `maximum` itself is not allowed.
    in_float32: Whether float32 tensors hold it, see `checks.check_number`.
  """
  declaration = {
    "meaning": meaning,
    "minimum": minimum,
    "maximum": maximum,
    "exclude_minimum": exclude_minimum,
    "exclude_maximum": exclude_maximum,
    "in_float32": in_float32,
  }
  return dataclasses.field(
    default=default, metadata={_DECLARATION: declaration}
  )


def required(meaning: str, **bounds: Any) -> Any:
  """Returns a dataclass field for a value that the caller must say.

  A method takes it from the option of that name, as AFL does `num_clients`.

  Args:
    meaning: Its meaning, a sentence.
    **bounds: As those of `hparam`.
  """
  return hparam(dataclasses.MISSING, meaning, **bounds)


class Hyperparameters:
  """Base of frozen dataclasses whose fields `hparam` makes: it checks them."""

  def __post_init__(self) -> None:
    """Checks each value.

    Raises:
      TypeError: If a value is of another type than its annotation.
      OptionError: If a value is out of bounds.
    """
    for hyperparameter in of(type(self)):
      hyperparameter.validate(getattr(self, hyperparameter.name))


def of(settings: type[Hyperparameters]) -> tuple[Hyperparameter, ...]:
  """Returns the hyperparameters that a class declares, in their order."""
  if not dataclasses.is_dataclass(settings):
    return ()
  annotations = typing.get_type_hints(settings)
  return tuple(
    Hyperparameter(
      name=field.name,
      annotation=annotations[field.name],
      default=field.default,
      **field.metadata[_DECLARATION],
    )
    for field in dataclasses.fields(settings)
    if _DECLARATION in field.metadata
  )


def add_to_signature(
  signature: inspect.Signature, hyperparameters: Iterable[Hyperparameter]
) -> inspect.Signature:
  """Returns a signature with keywords for hyperparameters before **options."""
  *first, options = signature.parameters.values()
  keywords = [
    inspect.Parameter(
      h.name,
      inspect.Parameter.KEYWORD_ONLY,
      default=inspect.Parameter.empty if h.is_required else h.default,
      annotation=h.annotation,
    )
    for h in hyperparameters
  ]
  return signature.replace(parameters=[*first, *keywords, options])


def document(hyperparameters: Iterable[Hyperparameter]) -> str:
  """Returns the lines of an "Args" section, as help shows them."""
  return "\n".join(
    textwrap.fill(
      f"{h.name}: {h.meaning}" + (f" In {h.interval}." if h.interval else ""),
      width=80,
      initial_indent="  ",
      subsequent_indent="    ",
    )
    for h in hyperparameters
  )
