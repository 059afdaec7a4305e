"""The old place of the rules, which are in `tff_fair.methods` now."""

import types

from tff_fair import methods, moved


def __getattr__(name: str) -> types.ModuleType:
  files = {
    method.module.rpartition(".")[2] for method in methods.METHODS.values()
  }
  new = f"tff_fair.methods.{name}" if name in files else None
  return moved.load(f"tff_fair.rules.{name}", new)
