"""Finds the uses of names that other code keeps private.

A name is private if it begins with one underscore. Only the code that defines
it may use it: the classes of a hierarchy on `self`, `cls` and `super()`, a file
on everything else. A class of the project that inherits from one of TFF's has
only the names that the project itself gives it.
"""

import ast
from collections.abc import Iterable, Iterator

from tests import source_tree

# Public names with an underscore: those of a NamedTuple, and `os._exit`.
_PUBLIC = (
  *("_asdict", "_field_defaults", "_fields", "_make", "_replace"),
  "_exit",
)
_SELVES = ("self", "cls", "super")


class Hierarchies:
  """The private names of all classes in some files, with inherited names."""

  def __init__(self, sources: Iterable[str]) -> None:
    """Reads the files; classes with the same name count as one."""
    self._own: dict[str, set[str]] = {}
    self._bases: dict[str, set[str]] = {}
    for source in sources:
      for node in source_tree.nodes(source):
        if isinstance(node, ast.ClassDef):
          self._own.setdefault(node.name, set()).update(_defined(node))
          bases = self._bases.setdefault(node.name, set())
          bases.update(map(_last_name, node.bases))

  def names(self, class_name: str) -> set[str]:
    """Returns the names that a class and its bases define."""
    classes = [class_name]
    for name in classes:  # The loop also visits the bases that it adds.
      classes += self._bases.get(name, set()).difference(classes)
    return set().union(*(self._own.get(name, ()) for name in classes))


def foreign(source: str, hierarchies: Hierarchies) -> Iterator[str]:
  """Yields the private names that a file imports or uses from other code."""
  nodes = source_tree.nodes(source)
  tree = nodes[0]
  of_file = _defined(tree)
  for node in nodes:
    if isinstance(node, ast.ImportFrom):
      names = [alias.name for alias in node.names if _is_private(alias.name)]
      yield from (f"{name} (line {node.lineno})" for name in names)
  for class_name, node in _within_classes(tree, None):
    owner, name = _attribute(node)
    if not _is_private(name) or name in _PUBLIC:
      continue
    if owner not in _SELVES or class_name is None:
      allowed = of_file
    else:
      allowed = hierarchies.names(class_name)
    if name not in allowed:
      yield f"{ast.unparse(node)} (line {node.lineno})"


def _attribute(node: ast.AST) -> tuple[str, str]:
  """Returns the owner and the name of the attribute that a node accesses."""
  match node:
    case ast.Attribute(value=owner, attr=name):
      return _last_name(owner), name
    case ast.Call(
      func=ast.Name(id="getattr" | "setattr" | "delattr" | "hasattr"),
      args=[owner, ast.Constant(value=str(name)), *_],
    ):
      return _last_name(owner), name
  return "", ""


def _within_classes(
  node: ast.AST, class_name: str | None
) -> Iterator[tuple[str | None, ast.expr]]:
  """Yields all expressions, each with the innermost class that contains it."""
  for child in ast.iter_child_nodes(node):
    if isinstance(child, ast.expr):
      yield class_name, child
    within = child.name if isinstance(child, ast.ClassDef) else class_name
    yield from _within_classes(child, within)


def _defined(tree: ast.AST) -> set[str]:
  """Returns the private names that a file or a class defines."""
  names = set()
  for node in ast.walk(tree):
    match node:
      case (
        ast.ClassDef(name=name)
        | ast.FunctionDef(name=name)
        | ast.AsyncFunctionDef(name=name)
        | ast.Name(id=name, ctx=ast.Store())
        | ast.Attribute(ast.Name("self"), attr=name, ctx=ast.Store())
      ):
        names.add(name)
  return set(filter(_is_private, names))


def _is_private(name: str) -> bool:
  return name.startswith("_") and not name.startswith("__")


def _last_name(node: ast.AST) -> str:
  """Returns `c` for `a.b.c`, `c(...)` and `c[...]`."""
  match node:
    case ast.Name(id=name) | ast.Attribute(attr=name):
      return name
    case ast.Call(func=inner) | ast.Subscript(value=inner):
      return _last_name(inner)
  return ""
