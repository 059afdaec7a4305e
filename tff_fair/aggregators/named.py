"""The factories of the methods, by name.

Each is a `RuleFactory` with the rule of one method; the hyperparameters are
documented there. Options, such as `aggregation`, are those of `RuleFactory`.
"""

from typing import Unpack

from tff_fair.aggregators import rule_factory
from tff_fair.rules import (
  adafed,
  afl,
  delta_fl,
  fedavg,
  fedavg_n,
  fedfa,
  fedfv,
  fedmgda_plus,
  fednova,
  gifair,
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


class AflFactory(rule_factory.RuleFactory):
  """AFL: see `tff_fair.rules.afl`.

  Needs the signal `loss`, and client ids in [0, num_clients).
  """

  def __init__(
    self,
    *,
    num_clients: int,
    lambda_learning_rate: float = afl.AflRule.lambda_learning_rate,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(
      afl.AflRule(
        num_clients=num_clients, lambda_learning_rate=lambda_learning_rate
      ),
      **options,
    )


class DeltaFlFactory(rule_factory.RuleFactory):
  """Delta-FL: see `tff_fair.rules.delta_fl`. Needs the signal `loss`."""

  def __init__(
    self,
    *,
    alpha: float = delta_fl.DeltaFlRule.alpha,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(delta_fl.DeltaFlRule(alpha=alpha), **options)


class FedAvgFactory(rule_factory.RuleFactory):
  """FedAvg: see `tff_fair.rules.fedavg`."""

  def __init__(self, **options: Unpack[_Options]) -> None:
    super().__init__(fedavg.FedAvgRule(), **options)


class FedAvgNFactory(rule_factory.RuleFactory):
  """FedAvg-n: see `tff_fair.rules.fedavg_n`."""

  def __init__(self, **options: Unpack[_Options]) -> None:
    super().__init__(fedavg_n.FedAvgNRule(), **options)


class FedFaFactory(rule_factory.RuleFactory):
  """FedFA: see `tff_fair.rules.fedfa`. Needs the signal `accuracy`."""

  def __init__(
    self,
    *,
    b: float = fedfa.FedFaRule.b,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(fedfa.FedFaRule(b=b), **options)


class FedFvFactory(rule_factory.RuleFactory):
  """FedFV: see `tff_fair.rules.fedfv`. Needs the signal `loss`."""

  def __init__(
    self,
    *,
    alpha: float = fedfv.FedFvRule.alpha,
    tau: int = fedfv.FedFvRule.tau,
    order: str = fedfv.FedFvRule.order,
    seed: int = fedfv.FedFvRule.seed,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(
      fedfv.FedFvRule(alpha=alpha, tau=tau, order=order, seed=seed), **options
    )


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


class FedNovaFactory(rule_factory.RuleFactory):
  """FedNova: see `tff_fair.rules.fednova`.

  Needs the signal `effective_steps`.
  """

  def __init__(
    self,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(fednova.FedNovaRule(), **options)


class GiFairFactory(rule_factory.RuleFactory):
  """GiFair-FL: see `tff_fair.rules.gifair`. Needs the signal `loss`."""

  def __init__(
    self,
    *,
    fraction: float = gifair.GiFairRule.fraction,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(gifair.GiFairRule(fraction=fraction), **options)


class QFedAvgFactory(rule_factory.RuleFactory):
  """q-FedAvg: see `tff_fair.rules.qfedavg`.

  Needs the signals `loss` and `learning_rate`.
  """

  def __init__(
    self,
    *,
    q: float = qfedavg.QFedAvgRule.q,
    lipschitz: float | None = qfedavg.QFedAvgRule.lipschitz,
    **options: Unpack[_Options],
  ) -> None:
    super().__init__(qfedavg.QFedAvgRule(q=q, lipschitz=lipschitz), **options)


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
