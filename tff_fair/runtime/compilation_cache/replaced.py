"""Finds what a program has put in the place of functions that keys name.

A key names functions, and our files say what the names stand for, as long as a
program puts nothing in their place. Scripts, notebooks and tests do so:
`tff_fair.types.f = mine`. So, where a program runs code of a user, no function
in the modules of ours, TensorFlow, Keras and NumPy may be the user's. Not seen
are other values in the place of constants, and one known function in the place
of another.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from tff_fair.runtime.compilation_cache import known_code

_PACKAGES = (
  *known_code.PACKAGES,
  "keras",
  "numpy",
  "tensorflow",
  "tensorflow_federated",
)


def check() -> None:
  """Checks that names stand for functions of ours and of installed packages.

  Raises:
    TypeError: If one stands for a function of a user.
  """
  if not known_code.has_others():
    return
  for title, module in sys.modules.copy().items():
    if title.partition(".")[0] in _PACKAGES:
      found = [*_values(vars(module))]
      known = _checked.get(title, [])
      if len(found) == len(known) and all(map(operator.is_, found, known)):
        continue
      for name in _foreign(vars(module)):
        raise TypeError(f"{title}.{name} may stand for anything.")
      _checked[title] = found


# What names of modules and their classes stood for when they were checked.
_checked: dict[str, list[Any]] = {}


def _values(namespace: Mapping[str, Any]) -> Iterator[Any]:
  """Yields what names of a module and of its classes stand for."""
  for value in [*namespace.values()]:
    yield value
    if _is_class_of(namespace, value):
      yield from _values(vars(value))


def _is_class_of(namespace: Mapping[str, Any], value: Any) -> bool:
  """Returns whether a value is a class that a module defines."""
  return isinstance(value, type) and (
    value.__module__ == namespace.get("__name__")
  )


def _foreign(namespace: Mapping[str, Any]) -> Iterator[str]:
  """Yields names of a module or class that stand for functions of a user."""
  for name, value in [*namespace.items()]:
    if _is_class_of(namespace, value):
      yield from (f"{name}.{member}" for member in _foreign(vars(value)))
    elif any(map(_is_foreign, _functions(value))):
      yield name


def _functions(value: Any) -> Iterator[types.FunctionType]:
  """Yields the functions in what a decorator may have given."""
  if isinstance(value, property):
    parts = [value.fget, value.fset, value.fdel]
  elif isinstance(value, functools.cached_property | functools.partial):
    parts = [value.func]
  elif isinstance(value, classmethod | staticmethod):
    parts = [value.__func__]
  else:
    parts = [value]
  for part in parts:
    if isinstance(part, types.FunctionType):
      yield part
      # What decorates a function may be known, and the function not.
      wrapped = inspect.getattr_static(part, "__wrapped__", None)
      if isinstance(wrapped, types.FunctionType):
        yield wrapped


def _is_foreign(function: types.FunctionType) -> bool:
  file = function.__code__.co_filename
  if file.startswith("<"):  # Generated, or typed into a console.
    main = sys.modules.get("__main__")
    return main is not None and function.__globals__ is vars(main)
  return not known_code.is_known(file)
