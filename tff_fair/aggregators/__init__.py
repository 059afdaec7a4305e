"""Aggregation factories: one per rule, and one for any rule."""

from tff_fair.aggregators.named import (
  AdaFedFactory,
  AflFactory,
  DeltaFlFactory,
  FedAvgFactory,
  FedAvgNFactory,
  FedFaFactory,
  FedFvFactory,
  FedMgdaPlusFactory,
  FedNovaFactory,
  GiFairFactory,
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
  "AflFactory",
  "DeltaFlFactory",
  "FedAvgFactory",
  "FedAvgNFactory",
  "FedFaFactory",
  "FedFvFactory",
  "FedMgdaPlusFactory",
  "FedNovaFactory",
  "GiFairFactory",
  "QFedAvgFactory",
  "RuleFactory",
  "SemiVRedFactory",
  "TermFactory",
  "VRedFactory",
  "supported_aggregations",
]
