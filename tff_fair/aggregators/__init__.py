"""Aggregation factories: one per rule of a method, and one for any rule."""

from typing import Any

from tff_fair import moved
from tff_fair.methods import METHODS, load

_PLACES = {
  "Defence": "tff_fair.summing",
  "RuleFactory": "tff_fair.summing",
  "TrimmedSumFactory": "tff_fair.summing",
  "supported_aggregations": "tff_fair.summing",
  **{m.factory: m.module for m in METHODS.values() if m.factory},
}

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
  if name in _PLACES:
    return load(_PLACES[name], name)
  return moved.load(f"{__name__}.{name}", known=__all__)


def __dir__() -> list[str]:
  return [*globals(), *_PLACES]
