"""Options of a task: a dataclass whose fields are declared values.

`tff_fair.declared` checks values from Python, and parses strings from a
command line.
"""

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from tff_fair import declared, spelling

Value = declared.Value

_Options = typing.TypeVar("_Options", bound="TaskOptions")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
  """Base class of a task's options; checks values and converts their types."""

  def __post_init__(self) -> None:
    for name, field in fields_of(type(self)).items():
      value = field.check(getattr(self, name))
      object.__setattr__(self, name, value)  # The dataclass is frozen.

  def require(self, name: str, condition: bool, expected: str) -> None:
    """Raises a `FieldError` about the option `name` if `condition` is false."""
    if not condition:
      raise declared.FieldError(
        name, f"expected {expected}.", value=getattr(self, name)
      )

  def to_dict(self) -> dict[str, Value]:
    """Returns the values by name, ready for JSON, with lists as strings."""
    return {n: _as_value(getattr(self, n)) for n in fields_of(type(self))}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientOptions(TaskOptions):
  """Options of tasks whose data is already grouped by client."""

  num_clients: int | None = declared.positive_integer(
    None, "Number of clients, chosen at random; none means all."
  )
  min_examples: int = declared.positive_integer(
    1,
    "Minimum number of examples per client, train and test together; clients "
    "with fewer are left out.",
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocalTestOptions(ClientOptions):
  """Options of tasks that may have to split a client's data for testing."""

  test_fraction: float = declared.value(
    0.2,
    "The share of a client's examples, chosen at random, that is used for "
    "testing, if the data does not say which are.",
    **declared.BETWEEN_0_AND_1,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LstmOptions(TaskOptions):
  """Options of models with LSTM layers."""

  lstm_layers: int = declared.positive_integer(2, "Number of LSTM layers.")
  lstm_units: int = declared.positive_integer(
    100, "Number of units of each LSTM layer."
  )


def fields_of(options_type: type) -> Mapping[str, declared.Field]:
  """Returns the options by name, in the order of declaration."""
  found = declared.fields_of(options_type)
  for field in dataclasses.fields(options_type):
    if field.name not in found:
      raise TypeError(
        f"{options_type.__name__}.{field.name} has no meaning; declare it by "
        "tff_fair.declared.value(default, meaning)."
      )
  return found


def _as_value(value: Any) -> Value:
  text: Value = declared.as_text(value) if isinstance(value, tuple) else value
  return text


def build(
  options_type: type[_Options], values: Mapping[str, object]
) -> _Options:
  """Returns options with the given values, and defaults for all others."""
  _check_names(values, fields_of(options_type))
  return options_type(**values)


def parse(
  options_type: type[TaskOptions], assignments: Iterable[str]
) -> dict[str, Value]:
  """Parses `name=value` strings; returns values by name, like `to_dict`."""
  valid = fields_of(options_type)
  texts = declared.assignments(assignments)
  _check_names(texts, valid)
  return {name: _as_value(valid[name].read(t)) for name, t in texts.items()}


def shape_of(text: str) -> tuple[int, ...] | None:
  """Returns (28, 28, 1) for "28x28", (32, 32, 3) for "32x32x3", else None."""
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
