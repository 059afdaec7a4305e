r"""A method of your own: MaxFL, as docs/extending.md builds it.

Cho, Jhunjhunwala, Li, Smith, Joshi, "Maximizing Global Model Appeal in
Federated Learning" (TMLR 2024).

python -m binaries.train --algorithm=examples/my_method.py:MaxFl \
  --loss_reference=local
"""

import dataclasses

import tensorflow as tf

from tff_fair import declared, types


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxFl(types.SeparableRule):
  """MaxFL: clients whose loss is near their required loss weigh most."""

  sharpness: float = declared.value(
    1.0, "How fast the weight falls away from the required loss.", minimum=0
  )

  signals = ("loss",)  # The loss f_k, or with a reference the gap f_k - rho_k.
  takes_gaps = True

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """Returns log q_k: q_k = s_k (1 - s_k), s_k = sigmoid(sharpness gap_k)."""
    distance = self.sharpness * tf.abs(cohort.loss)
    return -distance - 2.0 * tf.math.softplus(-distance)

  def coefficients(
    self, cohort: types.Cohort, state: tuple
  ) -> types.RuleOutput:
    """Returns c_k = q_k / (sum_j q_j + 1e-8)."""
    q = tf.exp(self.log_weight(cohort))
    return types.RuleOutput(q / (tf.reduce_sum(q) + 1e-8), state)

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """Returns c_k / q_k from sums over clients, for secure sums."""
    return types.SumsOutput(1.0 / (sums.scale + 1e-8))
