"""Modules that have moved: their old names work, with one line of notice."""

import importlib
import types
import warnings
from collections.abc import Iterable

from tff_fair import spelling

# From the names that guides and examples used to the names of today.
MODULES = {
  "tff_fair.algorithms.composition": "tff_fair.composition",
  "tff_fair.algorithms.registry": "tff_fair.methods.registry",
  "tff_fair.aggregators.rule_factory": "tff_fair.summing.rule_factory",
  "tasks.label_histogram": "tasks.cuts.label_histogram",
}


def load(
  old: str, new: str | None = None, known: Iterable[str] = ()
) -> types.ModuleType:
  """Returns a module by its old name, and warns.

  Args:
    old: The old name; used by `__getattr__` of the package that had it.
    new: The name of today; by default that in `MODULES`.
    known: What the package has, for a name that is spelled in another way.

  Raises:
    AttributeError: If there was no module of that name.
  """
  new = new or MODULES.get(old)
  package, _, name = old.rpartition(".")
  if new is None:
    near = " or ".join(spelling.guesses(name, known))
    hint = f"; did you mean {near}?" if near else ""
    raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
  warnings.warn(
    f"{old} is now {new}; the old name will go.",
    DeprecationWarning,
    stacklevel=3,
  )
  return importlib.import_module(new)
