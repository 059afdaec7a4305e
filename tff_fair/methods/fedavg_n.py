"""FedAvg-n: the average of normalized updates.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization" (FedMGDA+): its setting epsilon = 0.

  d = sum_k p_k Delta_k / ||Delta_k||,  hence  c_k = p_k / ||Delta_k||

Delta_k is client k's update and p_k its weight. A zero update stays zero: its
c_k is 0.
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.kernels import norms
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgNRule(types.SeparableRule):
  """Chooses FedAvg-n's coefficients, c_k = p_k / ||Delta_k||."""

  geometry = types.Geometry.NORMS
  own_factor = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(
      cohort.weight * norms.inverse_norms(cohort.squared_norm), state
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(cohort.weight) + tf.math.log(
      norms.inverse_norms(cohort.squared_norm)
    )

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(tf.math.reciprocal_no_nan(sums.weight))


build_fedavg_n = building.rule_builder(FedAvgNRule, "fedavg_n")


@summing.factory_of(FedAvgNRule)
class FedAvgNFactory(summing.RuleFactory):
  """Sums client updates with FedAvg-n's coefficients."""
