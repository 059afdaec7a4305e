"""The factories of the methods, by name.

Each is a `RuleFactory` with the rule of one method; the hyperparameters are
documented there. Options, such as `aggregation`, are those of `RuleFactory`.
"""

from typing import Unpack

from tff_fair.aggregators import rule_factory
from tff_fair.rules import (
  adafed,
  fedavg,
  fedavg_n,
  fedmgda_plus,
  qfedavg,
  term,
  vred,
)

_Options = rule_factory.FactoryOptions


class AdaFedFactory(rule_factory.RuleFactory):
  """AdaFed: see `tff_fair.rules.adafed`. Needs the signal `loss`."""

  def __init__(
    self, *, gamma: float = adafed.AdaFedRule.gamma, **options: Unpack[_Options]
  ) -> None:
    super().__init__(adafed.AdaFedRule(gamma=gamma), **options)


class FedAvgFactory(rule_factory.RuleFactory):
  """FedAvg: see `tff_fair.rules.fedavg`."""

  def __init__(self, **options: Unpack[_Options]) -> None:
    super().__init__(fedavg.FedAvgRule(), **options)


class FedAvgNFactory(rule_factory.RuleFactory):
  """FedAvg-n: see `tff_fair.rules.fedavg_n`."""

  def __init__(self, **options: Unpack[_Options]) -> None:
    super().__init__(fedavg_n.FedAvgNRule(), **options)


class FedMgdaPlusFactory(rule_factory.RuleFactory):
  """FedMGDA+: see `tff_fair.rules.fedmgda_plus`."""

  def __init__(
    self,
    *,
    epsilon: float = fedmgda_plus.FedMgdaPlusRule.epsilon,
    normalize: bool = fedmgda_plus.FedMgdaPlusRule.normalize,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(
      fedmgda_plus.FedMgdaPlusRule(epsilon=epsilon, normalize=normalize),
      **options,
    )


class QFedAvgFactory(rule_factory.RuleFactory):
  """q-FedAvg: see `tff_fair.rules.qfedavg`.

  Needs the signals `loss` and `learning_rate`.
  """

  def __init__(
    self, *, q: float = qfedavg.QFedAvgRule.q, **options: Unpack[_Options]
  ) -> None:
    super().__init__(qfedavg.QFedAvgRule(q=q), **options)


class SemiVRedFactory(rule_factory.RuleFactory):
  """Semi-VRed: see `tff_fair.rules.vred`. Needs the signal `loss`."""

  def __init__(
    self, *, beta: float = vred.SemiVRedRule.beta, **options: Unpack[_Options]
  ) -> None:
    super().__init__(vred.SemiVRedRule(beta=beta), **options)


class TermFactory(rule_factory.RuleFactory):
  """TERM: see `tff_fair.rules.term`. Needs the signal `loss`."""

  def __init__(
    self, *, t: float = term.TermRule.t, **options: Unpack[_Options]
  ) -> None:
    super().__init__(term.TermRule(t=t), **options)


class VRedFactory(rule_factory.RuleFactory):
  """VRed: see `tff_fair.rules.vred`. Needs the signal `loss`."""

  def __init__(
    self, *, beta: float = vred.VRedRule.beta, **options: Unpack[_Options]
  ) -> None:
    super().__init__(vred.VRedRule(beta=beta), **options)
