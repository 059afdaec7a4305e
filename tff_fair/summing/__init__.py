"""Aggregates client updates by a rule; imports no methods."""

from tff_fair.summing.aggregation_kinds import (
  SECURE,
  STACKED,
  TWO_PHASE,
  supported_aggregations,
  why_not_secure,
)
from tff_fair.summing.client_weighting import ClientWeighting
from tff_fair.summing.defences import Defence, TrimmedSumFactory
from tff_fair.summing.rule_factory import (
  FactoryOptions,
  RuleFactory,
  factory_of,
)

__all__ = [
  "SECURE",
  "STACKED",
  "TWO_PHASE",
  "ClientWeighting",
  "Defence",
  "FactoryOptions",
  "RuleFactory",
  "TrimmedSumFactory",
  "factory_of",
  "supported_aggregations",
  "why_not_secure",
]


def __dir__() -> list[str]:
  return __all__
