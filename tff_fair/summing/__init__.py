"""The ways of summing client updates by a rule; knows rules, and no method."""

from tff_fair.summing.rule_factory import (
  FactoryOptions,
  RuleFactory,
  factory_of,
  supported_aggregations,
)

__all__ = [
  "FactoryOptions",
  "RuleFactory",
  "factory_of",
  "supported_aggregations",
]
