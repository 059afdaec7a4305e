"""MaxFL: weights by how close clients are to their requirement.

Cho, Jhunjhunwala, Li, Smith, Joshi, "Maximizing Global Model Appeal in
Federated Learning" (TMLR 2024).

  q_k = s (1 - s),  s = sigmoid(f_k - rho_k)
  c_k = q_k / (sum_j q_j + 1e-8)

f_k is client k's loss, and rho_k the loss that it requires: that of a model
trained only on the client's own data. The option `loss_reference` sets rho_k;
the default is 0. A client's weight is largest if the global model just meets
the requirement. The clients' usual weights p_k are not used.

The formula was written down from memory, not copied from the paper.
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.methods import building

_EPSILON = 1e-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxFlRule(types.SeparableRule):
  """Chooses MaxFL's coefficients."""

  signals = ("loss",)
  takes_gaps = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    appeal = tf.exp(self.log_weight(cohort))
    return types.RuleOutput(appeal / (tf.reduce_sum(appeal) + _EPSILON), state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """Returns log q_k; see the base class."""
    # s (1 - s) is the same for f_k - rho_k of either sign.
    distance = tf.abs(cohort.loss)
    return -distance - 2.0 * tf.math.softplus(-distance)

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(1.0 / (sums.scale + _EPSILON))


build_maxfl = building.rule_builder(MaxFlRule, "maxfl")


@summing.factory_of(MaxFlRule)
class MaxFlFactory(summing.RuleFactory):
  """Sums client updates with MaxFL's coefficients."""
