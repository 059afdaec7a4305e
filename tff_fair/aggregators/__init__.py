"""Aggregation factories: one for each method's rule, and `RuleFactory`."""

from tff_fair import lazy
from tff_fair.methods import METHODS

_PLACES = {
  "Defence": "tff_fair.summing",
  "RuleFactory": "tff_fair.summing",
  "TrimmedSumFactory": "tff_fair.summing",
  "supported_aggregations": "tff_fair.summing",
  "factory_of": "tff_fair.methods.user_method",
  **{m.factory: m.module for m in METHODS.values() if m.factory},
}

__getattr__, __dir__, __all__ = lazy.attach_mapping(__name__, _PLACES)
