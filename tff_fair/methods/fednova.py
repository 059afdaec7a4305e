"""FedNova: normalized averaging of unequal numbers of local steps.

Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in
Heterogeneous Federated Optimization" (NeurIPS 2020).

  d = (sum_k p_k tau_k) sum_k p_k Delta_k / tau_k

Client k has the weight p_k, the update Delta_k and tau_k local steps; with a
stateful local optimizer, tau_k is the paper's norm ||a_k||_1 (see
`ClientSignals.effective_steps`).
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedNovaRule(types.SeparableRule):
  """Chooses FedNova's coefficients, c_k = (sum_j p_j tau_j) p_k / tau_k."""

  signals = ("effective_steps",)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    steps = cohort.effective_steps
    mean_steps = tf.reduce_sum(cohort.weight * steps)
    return types.RuleOutput(
      mean_steps * tf.math.divide_no_nan(cohort.weight, steps),
      state,
      {"effective_steps_mean": mean_steps},
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(
      tf.math.divide_no_nan(cohort.weight, cohort.effective_steps)
    )

  def terms(self, cohort: types.Cohort) -> Mapping[str, tf.Tensor]:
    """See the base class."""
    return {"steps": cohort.weight * cohort.effective_steps}

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    mean_steps = tf.math.divide_no_nan(sums.terms["steps"], sums.weight)
    return types.SumsOutput(
      tf.math.divide_no_nan(mean_steps, sums.weight),
      measurements={"effective_steps_mean": mean_steps},
    )


build_fednova = building.rule_builder(FedNovaRule, "fednova")


@summing.factory_of(FedNovaRule)
class FedNovaFactory(summing.RuleFactory):
  """Sums client updates with FedNova's coefficients."""
