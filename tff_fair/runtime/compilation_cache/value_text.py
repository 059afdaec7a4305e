"""Values as text: only of classes that are known to hold nothing else.

A value of a subclass may do as it likes, and its `repr` may say something else.
So all classes here are meant as they are, without their subclasses.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_fair.runtime.compilation_cache import known_code

# Numbers, texts and times. Others have fields, or refer to objects.
_KINDS_OF_NUMPY = "biufcSUmM"


def text(value: object) -> str:
  """Returns a text that equal values share, and different ones do not.

  Raises:
    TypeError: If the value is or has something that may stand for anything.
  """
  try:
    return _text(value)
  # Of a structure that is within itself, and of one without end.
  except RecursionError as error:
    raise TypeError(
      "It has itself in it: it may stand for anything."
    ) from error


def _text(value: object) -> str:
  return f"{type(value).__name__}({_content(value)})"


def _content(value: Any) -> str:
  kind = type(value)
  if isinstance(value, np.generic) and kind is value.dtype.type:
    return _of_array(np.asarray(value))
  if dataclasses.is_dataclass(kind):
    return _of_dataclass(value)
  if kind not in _CONTENTS:
    raise _unknown(value)
  return _CONTENTS[kind](value)


def _of_float(value: float) -> str:
  return struct.pack("<d", value).hex()


def _of_sequence(value: Sequence[object]) -> str:
  return ", ".join(map(_text, value))


def _of_mapping(value: Mapping[Any, object]) -> str:
  if _attributes(value):
    raise _unknown(value)
  return _of_sequence([*value.items()])


def _of_partial(value: functools.partial[object]) -> str:
  if _attributes(value):
    raise _unknown(value)
  return _of_sequence([value.func, value.args, value.keywords])


def _of_array(value: np.ndarray) -> str:
  dtype = value.dtype
  if dtype.kind not in _KINDS_OF_NUMPY or dtype.metadata:
    raise _unknown(value)
  digest = hashlib.sha256(value.tobytes()).hexdigest()
  # The order in memory decides in which order NumPy sums.
  return f"{dtype.str}{value.shape}{value.strides}:{digest}"


def _of_function(value: types.FunctionType) -> str:
  """Returns what decides a function of ours, beside our files."""
  module = sys.modules.get(value.__module__)
  if (
    not known_code.is_ours(value.__code__.co_filename)
    or module is None
    or value.__globals__ is not vars(module)
  ):
    raise _unknown(value)
  try:
    held = [cell.cell_contents for cell in value.__closure__ or ()]
  except ValueError:  # It is yet to get a value.
    raise _unknown(value) from None
  given = [value.__defaults__, value.__kwdefaults__, held, _attributes(value)]
  names = [value.__module__, value.__qualname__]
  return _of_sequence([*names, _of_code(value.__code__), *given])


def _of_code(code: types.CodeType) -> str:
  """Returns a digest of what a function does: two may be on one line."""
  consts = [
    _of_code(const) if isinstance(const, types.CodeType) else _of_const(const)
    for const in code.co_consts
  ]
  parts = [
    *(code.co_qualname, code.co_firstlineno, code.co_flags, code.co_code),
    *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
    consts,
  ]
  return hashlib.sha256(repr(parts).encode()).hexdigest()


def _of_const(const: object) -> str:
  # The order of a set changes from one program to the next.
  return repr(sorted(map(repr, const)) if type(const) is frozenset else const)


def _of_dataclass(value: Any) -> str:
  kind = type(value)
  module = sys.modules.get(kind.__module__)
  found: Any = module
  for name in kind.__qualname__.split("."):
    found = getattr(found, name, None)
  file = getattr(module, "__file__", None)
  names = [field.name for field in dataclasses.fields(value)]
  if (
    found is not kind
    or file is None
    or not known_code.is_ours(file)
    or not all(hasattr(value, name) for name in names)
    or not _attributes(value).keys() <= {*names}
  ):
    raise _unknown(value)
  fields = {name: getattr(value, name) for name in names}
  return f"{kind.__module__}.{kind.__qualname__}:{_of_mapping(fields)}"


def _attributes(value: object) -> dict[str, object]:
  return getattr(value, "__dict__", {})


def _unknown(value: object) -> TypeError:
  # Without its `repr`, which is code of the user.
  return TypeError(f"A {type(value).__name__} may stand for anything.")


_CONTENTS: Mapping[type[object], Callable[[Any], str]] = {
  **dict.fromkeys((type(None), bool, str, bytes, tf.TensorSpec), repr),
  int: hex,
  float: _of_float,
  list: _of_sequence,
  tuple: _of_sequence,
  dict: _of_mapping,
  collections.OrderedDict: _of_mapping,
  functools.partial: _of_partial,
  np.ndarray: _of_array,
  types.FunctionType: _of_function,
}
