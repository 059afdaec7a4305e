"""Models and objectives of ours as plain values, which JSON can hold.

A description names functions of this project, with their arguments. So each
user of the project makes the same model of it, and no file can run other code.
"""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.task import Objective

# Where the functions are that a description may name.
_ROOM = "tasks.models."
_PLAIN = (type(None), bool, int, float, str)


def describe(value: object) -> object:
  """Returns the description of a model's function, or of an objective.

  Args:
    value: A function in `tasks.models`, a `functools.partial` of one, an
      `Objective` of such, or an argument of one: a plain value, or a tuple or
      list of such.

  Raises:
    TypeError: If it is, or has, anything else.
  """
  match value:
    case _ if isinstance(value, _PLAIN):
      return value
    case tuple() | list():
      return {type(value).__name__: [describe(item) for item in value]}
    case functools.partial():
      return {
        "function": _name(value.func),
        "arguments": [describe(item) for item in value.args],
        "keywords": {k: describe(v) for k, v in value.keywords.items()},
      }
    case Objective():
      return {
        "objective": {
          field.name: describe(getattr(value, field.name))
          for field in dataclasses.fields(value)
          if getattr(value, field.name) is not field.default
        }
      }
    case _ if callable(value):
      return {"function": _name(value)}
  raise TypeError(f"{value!r} has no description.")


def build(description: Any) -> Any:
  """Returns what `describe` has described.

  Raises:
    ValueError: If it is no description.
  """
  match description:
    case _ if isinstance(description, _PLAIN):
      return description
    case {"tuple": items}:
      return tuple(_items(items))
    case {"list": items}:
      return _items(items)
    case {"function": str(name), "arguments": arguments, "keywords": keywords}:
      return functools.partial(
        _function(name), *_items(arguments), **_values(keywords)
      )
    case {"function": str(name)}:
      return _function(name)
    case {"objective": fields}:
      return Objective(**_values(fields))
  raise ValueError(f"{description!r} describes no model.")


def _items(descriptions: Sequence[Any]) -> list[Any]:
  return [build(description) for description in descriptions]


def _values(descriptions: Mapping[str, Any]) -> dict[str, Any]:
  return {name: build(value) for name, value in descriptions.items()}


def _name(function: Callable[..., Any]) -> str:
  module = getattr(function, "__module__", "")
  name = f"{module}:{getattr(function, '__qualname__', '')}"
  try:
    is_found = _function(name) is function
  except ValueError:
    is_found = False
  if not is_found:
    raise TypeError(f"{function!r} is no function of {_ROOM[:-1]}.")
  return name


def _function(name: str) -> Callable[..., Any]:
  module, _, function = name.partition(":")
  if not module.startswith(_ROOM) or not function.isidentifier():
    raise ValueError(f"{name!r} is no function of {_ROOM[:-1]}.")
  try:
    found = getattr(importlib.import_module(module), function)
  except (AttributeError, ImportError):
    found = None
  # No name that the module has imported itself.
  if not inspect.isfunction(found) or found.__module__ != module:
    raise ValueError(f"there is no function {name!r} in this version.")
  return found
