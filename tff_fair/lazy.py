"""Lets packages import their names on first use.

A package lists its names once, for type checkers; this module reads that list:

    if typing.TYPE_CHECKING:
      from tff_fair.runtime.contexts import use_dask as use_dask

    __getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
"""

import ast
import importlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from tff_fair import spelling

ModuleHooks = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str, file: str) -> ModuleHooks:
  """Returns `__getattr__`, `__dir__` and `__all__` for a package.

  The package's names are those that `file` imports in the form "name as name".
  """
  tree = ast.parse(pathlib.Path(file).read_text("utf-8"))
  places = {
    alias.name: str(node.module)
    for node in ast.walk(tree)
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
    if alias.name == alias.asname
  }
  return attach_mapping(package, places)


def attach_mapping(package: str, places: Mapping[str, str]) -> ModuleHooks:
  """Does the same as `attach` for a mapping of public names to modules."""
  public = list(places)

  def find(name: str) -> Any:
    if name not in places:
      guess = spelling.suggest(name, places)
      raise AttributeError(
        f"module {package!r} has no attribute {name!r}{guess and f'; {guess}'}"
      )
    if places[name] == package:
      return importlib.import_module(f"{package}.{name}")
    return getattr(importlib.import_module(places[name]), name)

  return find, lambda: public, public
