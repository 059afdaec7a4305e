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

from tasks.task import KerasModelFn, Objective, Task

# Where the functions are that a description may name.
_ROOM = "tasks.models."
_PLAIN = (type(None), bool, int, float, str)
# Functions of a model whose seed decides more than its initial weights.
_DRAWING = ("tasks.models.convolutional:dropout_cnn",)


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


def of_seed_0(task: Task) -> Task:
  """Returns a task with other initial weights: those that seed 0 gives.

  Tasks that differ in the seed of their model alone then have equal models, and
  share what is compiled of them.

  Args:
    task: Any task.

  Returns:
    The task itself, if the seed of its model may decide more, or if its model
    is none of this project.
  """
  # It imports TensorFlow, and programs describe a task before they do.
  from tasks.models import made  # noqa: PLC0415

  build = task.keras_model_fn
  if isinstance(build, made.Starting):
    build = build.build
  if not isinstance(build, functools.partial):
    return task
  try:
    name = _name(build.func)
  except TypeError:
    return task
  named = inspect.signature(build.func).bind_partial(
    *build.args, **build.keywords
  )
  if name in _DRAWING or "seed" not in named.arguments:
    return task
  named.arguments["seed"] = 0
  with_seed_0: KerasModelFn = functools.partial(
    build.func, *named.args, **named.kwargs
  )
  return dataclasses.replace(task, keras_model_fn=with_seed_0)
