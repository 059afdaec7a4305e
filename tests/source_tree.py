"""Facts about the project's own source files."""

import ast
import functools
import os
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("tff_fair", "tasks", "binaries", "demonstrations")


def python_files(*folders: str) -> list[pathlib.Path]:
  """Returns all Python files under folders of the project."""
  return sorted(
    path for folder in folders for path in (ROOT / folder).rglob("*.py")
  )


def module_name(path: pathlib.Path) -> str:
  """Returns the dotted name under which a file of the project is imported."""
  parts = path.relative_to(ROOT).with_suffix("").parts
  return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
  """Returns all nodes of a source file, cached for several tests."""
  return tuple(ast.walk(ast.parse(source)))


@functools.cache
def imported_names(source: str) -> tuple[str, ...]:
  """Returns the full dotted name of everything that a source file imports.

  `from a import b` is "a.b"; a relative import keeps its leading dots.
  """
  return tuple(_imported_names(source))


def _imported_names(source: str) -> Iterator[str]:
  for node in nodes(source):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      origin = "." * node.level + (node.module or "")
      separator = "." if node.module else ""
      yield from (f"{origin}{separator}{alias.name}" for alias in node.names)


def environment(*, of_tests: bool = True) -> dict[str, str]:
  """Returns the environment of a program that imports this project."""
  paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
  found = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
  if not of_tests:
    found.pop("TF_CPP_MIN_LOG_LEVEL", None)
  return found
