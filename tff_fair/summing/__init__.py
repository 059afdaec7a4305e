"""Sums client updates with the coefficients of any rule.

The package does not depend on the methods; the methods use it.
"""

from tff_fair import lazy
from tff_fair.summing.aggregation_kinds import (
  SECURE as SECURE,
  STACKED as STACKED,
  TWO_PHASE as TWO_PHASE,
  supported_aggregations as supported_aggregations,
  why_not_secure as why_not_secure,
)
from tff_fair.summing.client_weighting import ClientWeighting as ClientWeighting
from tff_fair.summing.defences import (
  Defence as Defence,
  TrimmedSumFactory as TrimmedSumFactory,
)
from tff_fair.summing.rule_factory import (
  FactoryOptions as FactoryOptions,
  RuleFactory as RuleFactory,
  factory_of as factory_of,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
