"""Aggregation factories: one per method, and one for any rule."""

from tff_fair.aggregators.named import (
  AdaFedFactory,
  FedAvgFactory,
  FedAvgNFactory,
  FedMgdaPlusFactory,
  QFedAvgFactory,
  SemiVRedFactory,
  TermFactory,
  VRedFactory,
)
from tff_fair.aggregators.rule_factory import (
  RuleFactory,
  supported_aggregations,
)

__all__ = [
  "AdaFedFactory",
  "FedAvgFactory",
  "FedAvgNFactory",
  "FedMgdaPlusFactory",
  "QFedAvgFactory",
  "RuleFactory",
  "SemiVRedFactory",
  "TermFactory",
  "VRedFactory",
  "supported_aggregations",
]
