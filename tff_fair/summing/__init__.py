"""The ways of summing client updates by a rule; knows rules, and no method."""

from tff_fair.summing.defences import Defence
from tff_fair.summing.rule_factory import (
  TWO_PHASE,
  FactoryOptions,
  RuleFactory,
  factory_of,
  supported_aggregations,
)
from tff_fair.summing.trimmed_sum import TrimmedSumFactory

__all__ = [
  "TWO_PHASE",
  "Defence",
  "FactoryOptions",
  "RuleFactory",
  "TrimmedSumFactory",
  "factory_of",
  "supported_aggregations",
]
