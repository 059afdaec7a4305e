"""Finds what a program has replaced in our modules and in those we build on.

A key names functions, and our files say what the names stand for, as long as
nothing else has been put in their place. Scripts, notebooks and tests do so:
`tff_fair.types.f = mine`. Where a program runs code of a user, all functions,
classes, imports and constants of our modules have to be those of their files,
and no function in the modules of TensorFlow may be a user's. Not seen are
changes within a mutable value, and one part of TensorFlow in the place of
another.
"""

from __future__ import annotations

import dis
import enum
import functools
import importlib.machinery
import inspect
import operator
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tff_fair.compilation_cache import known_code

_LIBRARIES = ("tensorflow", "tensorflow_federated", "keras", "numpy")


def check() -> None:
  """Checks that names stand for what files say.

  Raises:
    TypeError: If one may stand for anything.
  """
  if not known_code.has_others():
    return
  for title, module in [*sys.modules.items()]:
    package = title.partition(".")[0]
    if package in known_code.PACKAGES:
      find = _replaced
    elif package in _LIBRARIES:
      find = _foreign
    else:
      continue
    if not _is_as_before(title, module):
      for name in find(module):
        raise TypeError(f"{title}.{name} may stand for anything.")
      _remember(title, module)


# What the namespaces of modules held when they were checked: that of the module
# and those of its classes.
_checked: dict[str, list[tuple[Any, list[Any]]]] = {}


def _is_as_before(title: str, module: types.ModuleType) -> bool:
  """Returns whether all names of a module stand for what they stood for."""
  known = _checked.get(title)
  return (
    known is not None
    and known[0][0] is module
    and all(
      len(vars(owner)) == len(values)
      and all(map(operator.is_, [*vars(owner).values()], values))
      for owner, values in known
    )
  )


def _remember(title: str, module: types.ModuleType) -> None:
  owners = [module, *(kind for _, kind in _classes(module))]
  _checked[title] = [(owner, [*vars(owner).values()]) for owner in owners]


def _classes(module: types.ModuleType) -> Iterator[tuple[str, type[Any]]]:
  """Yields the classes that a module defines, by name."""
  for name, value in [*vars(module).items()]:
    if isinstance(value, type) and value.__module__ == module.__name__:
      yield name, value


class _Source(NamedTuple):
  """What the file of a module, or the body of a class, says.

  Attributes:
    codes: The code of all functions and classes within, by qualified name.
    constants: Names that get a constant, once.
    imports: Names that come from another module, and their names there; or
      `None` for a module itself.
    bodies: The code of the functions and classes, by name.
  """

  codes: dict[str, list[types.CodeType]]
  constants: dict[str, object]
  imports: dict[str, tuple[str, str | None]]
  bodies: dict[str, types.CodeType]


@functools.cache
def _source(name: str) -> _Source | None:
  """Returns what the file of a module says; `None` without one."""
  loader = getattr(sys.modules[name], "__loader__", None)
  if not isinstance(loader, importlib.machinery.SourceFileLoader):
    return None
  code = loader.get_code(name)
  return None if code is None else _read(code)


@functools.cache
def _read(code: types.CodeType) -> _Source:
  """Reads the bindings of a module's or a class's body from its bytecode."""
  source = _Source({}, {}, {}, {})
  changing = {*_set_by_functions(code)}
  stored: set[str] = set()
  module, member, constant = "", None, []
  for name, argument in _instructions(code):
    if name == "LOAD_CONST":
      constant = [code.co_consts[argument]]
      continue
    if name == "IMPORT_NAME":
      module, member = code.co_names[argument], None
    elif name == "IMPORT_FROM":
      member = code.co_names[argument]
    elif name == "STORE_NAME":
      target = code.co_names[argument]
      changing |= {target} & stored
      stored.add(target)
      if module:
        source.imports[target] = module, member
      elif constant:
        source.constants[target] = constant[0]
    if name not in ("IMPORT_NAME", "IMPORT_FROM") and not (
      name == "STORE_NAME" and member is not None
    ):
      module, member = "", None
    constant = []
  for inner in _codes_within(code):
    source.codes.setdefault(inner.co_qualname, []).append(inner)
  for inner in filter(_is_code, code.co_consts):
    source.bodies[inner.co_name] = inner
  for target in changing:
    source.constants.pop(target, None)
    source.imports.pop(target, None)
  return source


def _instructions(code: types.CodeType) -> Iterator[tuple[str, int]]:
  """Yields instructions and arguments: `dis` is ten times slower."""
  extended = 0
  content = code.co_code
  for place in range(0, len(content), 2):
    argument = extended | content[place + 1]
    name = dis.opname[content[place]]
    extended = argument << 8 if name == "EXTENDED_ARG" else 0
    if name not in ("EXTENDED_ARG", "CACHE", "NOP", "RESUME"):
      yield name, argument


def _is_code(value: object) -> bool:
  return isinstance(value, types.CodeType)


def _codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
  for inner in filter(_is_code, code.co_consts):
    yield inner
    yield from _codes_within(inner)


def _set_by_functions(code: types.CodeType) -> Iterator[str]:
  """Yields the globals that functions set."""
  for inner in _codes_within(code):
    if dis.opmap["STORE_GLOBAL"] in inner.co_code[::2]:
      for name, argument in _instructions(inner):
        if name == "STORE_GLOBAL":
          yield inner.co_names[argument]


def _replaced(module: types.ModuleType) -> Iterator[str]:
  """Yields names of a module of ours that do not stand for what it says."""
  source = _source(module.__name__)
  if source is None:
    yield "__file__"
    return
  found = vars(module)
  yield from _changed(found, source)
  for name, (origin, member) in source.imports.items():
    if name in found and not _is_import(found[name], origin, member):
      yield name
  for name, kind in _classes(module):
    body = source.bodies.get(name)
    if body is not None and kind.__qualname__ == name:
      members = _changed(vars(kind), _read(body), source, kind)
      yield from (f"{name}.{member}" for member in members)


def _changed(
  found: Mapping[str, Any],
  source: _Source,
  whole: _Source | None = None,
  owner: type[object] | None = None,
) -> Iterator[str]:
  """Yields functions and constants that are not those of a module or class."""
  codes = (whole or source).codes
  for name, value in [*found.items()]:
    body = source.bodies.get(name)
    functions = [*_functions(value)]
    if any(_is_foreign(f) for f in functions) or (
      body is not None
      and name not in source.constants
      and not _defines(value, functions, codes.get(body.co_qualname, []))
    ):
      yield name
  if owner is not None and _changes_constants(owner):
    return
  for name, constant in source.constants.items():
    if (
      name in found
      and name != "__doc__"
      and not _is_constant(found[name], constant)
      and not (owner is not None and _sets_attribute(codes, name))
    ):
      yield name


def _sets_attribute(
  codes: Mapping[str, Sequence[types.CodeType]], name: str
) -> bool:
  """Returns whether some code of a module sets an attribute of a name."""
  return any(
    code.co_names[argument] == name
    for same_name in codes.values()
    for code in same_name
    if name in code.co_names
    for instruction, argument in _instructions(code)
    if instruction == "STORE_ATTR"
  )


def _defines(
  value: object,
  functions: list[types.FunctionType],
  codes: list[types.CodeType],
) -> bool:
  """Returns whether a definition may have given a value.

  What decorators give may have nothing to see of the function but its name.
  """
  names = [code.co_qualname for code in codes]
  if isinstance(value, type):
    return value.__qualname__ in names
  return not functions or any(
    f.__code__ in codes or (f.__qualname__ in names and _is_decorated(f))
    for f in functions
  )


def _is_decorated(function: types.FunctionType) -> bool:
  """Returns whether a function has a name that is not that of its code."""
  return function.__qualname__ != function.__code__.co_qualname


def _functions(value: Any) -> Iterator[types.FunctionType]:
  """Yields the functions in what a decorator may have given."""
  parts = (
    [value.fget, value.fset, value.fdel]
    if isinstance(value, property)
    else [value.func]
    if isinstance(value, functools.cached_property)
    else [inspect.getattr_static(value, "__func__", value)]
    if isinstance(value, classmethod | staticmethod)
    else [value]
  )
  for part in parts:
    yield from _layers(part)


def _layers(value: Any) -> Iterator[types.FunctionType]:
  """Yields a function and those that it wraps."""
  for _ in range(9):  # At most so many.
    if isinstance(value, types.FunctionType):
      yield value
    elif not isinstance(
      value, functools.partial | functools._lru_cache_wrapper
    ):
      return
    value = getattr(value, "func", None) or getattr(value, "__wrapped__", None)


def _is_foreign(function: types.FunctionType) -> bool:
  file = function.__code__.co_filename
  if file.startswith("<"):  # Generated, or typed into a console.
    main = sys.modules.get("__main__")
    return main is not None and function.__globals__ is vars(main)
  return not known_code.is_known(file)


def _changes_constants(owner: type[object]) -> bool:
  """Returns whether a class makes something of the constants in its body."""
  return issubclass(owner, enum.Enum | tuple) or "__slots__" in vars(owner)


def _is_constant(value: object, constant: object) -> bool:
  return value is constant or (
    type(value) is type(constant) and repr(value) == repr(constant)
  )


def _is_import(value: Any, origin: str, member: str | None) -> bool:
  module = sys.modules.get(origin)
  if member is not None and module is not None and member in vars(module):
    return value is vars(module)[member]
  if not isinstance(value, types.ModuleType):
    return member is not None
  name = origin if member is None else f"{origin}.{member}"
  # A lazy module of TensorFlow has another name at its first use.
  if known_code.is_known(getattr(value, "__file__", None) or "<frozen >"):
    return value.__name__.rpartition(".")[2] == name.rpartition(".")[2] or (
      value.__name__ == origin.partition(".")[0]
    )
  return False


def _foreign(module: types.ModuleType) -> Iterator[str]:
  """Yields names of a module that stand for functions of a user."""
  owners = [("", vars(module))]
  owners += [(f"{name}.", vars(kind)) for name, kind in _classes(module)]
  for prefix, found in owners:
    for name, value in [*found.items()]:
      if type(value) is types.FunctionType and _is_foreign(value):
        yield f"{prefix}{name}"
