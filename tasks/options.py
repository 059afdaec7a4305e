"""Options of a task: a dataclass whose annotations say what is valid.

`tff_fair.typed_values` says which annotations there are. They check the values
given in Python and read those given as text on a command line.
"""

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from tff_fair import typed_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
  """Base of all options; checks that each value is of its field's type."""

  def __post_init__(self) -> None:
    for name, annotation in annotations(type(self)).items():
      typed_values.check(name, annotation, getattr(self, name))

  def require(self, name: str, condition: bool, expected: str) -> None:
    """Raises ValueError that says what was expected unless condition holds."""
    if not condition:
      raise ValueError(
        f"{name} must be {expected}, found {getattr(self, name)!r}."
      )


def annotations(options_type: type[TaskOptions]) -> Mapping[str, Any]:
  """Returns the annotated type of each option."""
  hints = typing.get_type_hints(options_type)
  return {f.name: hints[f.name] for f in dataclasses.fields(options_type)}


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
  return typed_values.parse_assignments(
    annotations(options_type), assignments, what="option"
  )


def check_names(options_type: type[TaskOptions], names: Iterable[str]) -> None:
  """Raises ValueError that lists the valid names if one of names is unknown."""
  typed_values.check_names(names, annotations(options_type), what="option")
