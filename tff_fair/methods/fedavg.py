"""FedAvg: weights every client by its share of the examples.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient
Learning of Deep Networks from Decentralized Data" (AISTATS 2017).

  c_k = p_k,  client k's share of the examples, or 1/m with equal weights
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgRule(types.SeparableRule):
  """Chooses FedAvg's coefficients, c_k = p_k."""

  own_factor = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(cohort.weight, state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(cohort.weight)

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(tf.math.reciprocal_no_nan(sums.weight))


build_fedavg = building.rule_builder(FedAvgRule, "fedavg")


@summing.factory_of(FedAvgRule)
class FedAvgFactory(summing.RuleFactory):
  """Sums client updates with FedAvg's coefficients."""
