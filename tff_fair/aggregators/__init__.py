"""Aggregation factories: one per method, and one for any rule."""

from tff_fair.aggregators.named import AdaFedFactory
from tff_fair.aggregators.named import FedAvgFactory
from tff_fair.aggregators.named import FedAvgNFactory
from tff_fair.aggregators.named import FedMgdaPlusFactory
from tff_fair.aggregators.named import QFedAvgFactory
from tff_fair.aggregators.named import SemiVRedFactory
from tff_fair.aggregators.named import TermFactory
from tff_fair.aggregators.named import VRedFactory
from tff_fair.aggregators.rule_factory import RuleFactory
from tff_fair.aggregators.rule_factory import supported_aggregations

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
