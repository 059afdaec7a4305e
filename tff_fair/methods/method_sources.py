"""Reads methods' hyperparameters and citations from source, without imports.

Checking a run takes a fraction of a second, but importing TensorFlow Federated
takes ten seconds. So this module finds, in source code, the hyperparameters
that `building.builder` and `building.rule_builder` would find when they run:

  build_term = building.rule_builder(TermRule, "term")

  @building.builder(fedavg.FedAvgRule, ProximalTerm, fixed={...})
  def build_fedprox(...): ...

In the first example, the hyperparameters are the fields of `TermRule` that
`declared.value` declares.
"""

import ast
import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from tff_fair import declared

_ROOT = pathlib.Path(__file__).parents[2]
_BUILDERS = ("builder", "rule_builder")
# The names that declarations of fields may use, besides constants of their
# module.
_KNOWN = {
  "__builtins__": {},
  "Literal": Literal,
  "declared": declared,
  **{kind.__name__: kind for kind in (bool, float, int, str)},
}


class _Definition(NamedTuple):
  """A class, and the module that defines it."""

  module: str
  node: ast.ClassDef


@functools.cache
def hyperparameters(module: str, builder: str) -> tuple[declared.Field, ...]:
  """Returns the hyperparameters of a builder, in the order of its keywords.

  `module` and `builder` are names. Raises `LookupError` if the module does not
  define the builder.
  """
  call = _builder_call(module, builder)
  fixed: dict[str, Any] = next(
    (ast.literal_eval(k.value) for k in call.keywords if k.arg == "fixed"), {}
  )
  return tuple(
    hyperparameter
    for argument in call.args
    if (definition := _resolve(module, argument)) is not None
    for hyperparameter in _declared(definition).values()
    if hyperparameter.name not in fixed and not hyperparameter.is_required
  )


def reference(module: str) -> str:
  """Returns the citation of a method's paper: authors, title, venue, year.

  This is the second paragraph in the docstring of the method's module.
  """
  _, paper, *_ = (ast.get_docstring(_parse(module)) or "").split("\n\n")
  return " ".join(paper.split())


def _builder_call(module: str, builder: str) -> ast.Call:
  """Finds the call of a `_BUILDERS` function that creates a builder."""
  for statement in _parse(module).body:
    candidates: list[ast.expr] = []
    match statement:
      case ast.FunctionDef(name=name) if name == builder:
        candidates = statement.decorator_list
      case ast.Assign(targets=[ast.Name(id=name)]) if name == builder:
        candidates = [statement.value]
    for call in candidates:
      if isinstance(call, ast.Call) and _last_name(call.func) in _BUILDERS:
        return call
  raise LookupError(f"{module} has no {builder} that building.builder makes.")


def _declared(definition: _Definition) -> dict[str, declared.Field]:
  """Returns the declared fields of a class and its bases by name, in order."""
  fields: dict[str, declared.Field] = {}
  for base in reversed(definition.node.bases):
    found = _resolve(definition.module, base)
    if found is not None:
      fields |= _declared(found)
  for statement in definition.node.body:
    match statement:
      case ast.AnnAssign(
        target=ast.Name(id=name), value=ast.Call(func=func)
      ) if _last_name(func) in ("value", "required"):
        fields[name] = _read_field(definition.module, name, statement)
  return fields


def _read_field(
  module: str, name: str, statement: ast.AnnAssign
) -> declared.Field:
  """Returns the field that `name: annotation = declared.value(...)` declares.

  Only this statement is evaluated.
  """
  known = {**_KNOWN, **_constants(module)}
  assert statement.value is not None
  annotation, value = (
    eval(ast.unparse(node), known)
    for node in (statement.annotation, statement.value)
  )
  settings = dataclasses.make_dataclass(
    "Settings", [(name, annotation, value)], bases=(declared.Hyperparameters,)
  )
  return declared.fields_of(settings)[name]


def _constants(module: str) -> dict[str, Any]:
  """Returns a module's constants with literal values, by name."""
  found = {}
  for statement in _parse(module).body:
    match statement:
      case ast.Assign(targets=[ast.Name(id=name)], value=value):
        with contextlib.suppress(ValueError):
          found[name] = ast.literal_eval(value)
  return found


def _resolve(module: str, node: ast.expr) -> _Definition | None:
  """Finds the class of this project that an expression names, or None."""
  match node:
    case ast.Name(id=name):
      return _find_class(module, name)
    case ast.Attribute(value=ast.Name(id=alias), attr=name):
      for where, imported, bound in _imports(module):
        if bound == alias:
          return _find_class(f"{where}.{imported}", name)
  return None


def _find_class(module: str, name: str) -> _Definition | None:
  """Finds the class that a module defines, or imports, under a name."""
  if not module.startswith("tff_fair."):
    return None
  for statement in _parse(module).body:
    if isinstance(statement, ast.ClassDef) and statement.name == name:
      return _Definition(module, statement)
  for where, imported, bound in _imports(module):
    if bound == name:
      return _find_class(where, imported)
  return None


def _imports(module: str) -> Iterator[tuple[str, str, str]]:
  """Yields (MODULE, NAME, BOUND) of each `from MODULE import NAME as BOUND`.

  Without "as", BOUND is NAME.
  """
  for statement in _parse(module).body:
    if isinstance(statement, ast.ImportFrom) and statement.module:
      for alias in statement.names:
        yield statement.module, alias.name, alias.asname or alias.name


@functools.cache
def _parse(module: str) -> ast.Module:
  path = _ROOT.joinpath(*module.split("."))
  path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
  return ast.parse(path.read_text("utf-8"))


def _last_name(node: ast.expr) -> str:
  match node:
    case ast.Attribute(attr=name) | ast.Name(id=name):
      return name
  return ""
