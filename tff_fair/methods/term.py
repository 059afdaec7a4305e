"""TERM: tilted empirical risk minimization.

Li, Beirami, Sanjabi, Smith, "Tilted Empirical Risk Minimization" (ICLR 2021).

  c_k = p_k exp(t f_k) / sum_j p_j exp(t f_j)
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.hyperparameters import hparam
from tff_fair.methods import building


def tilted_log_weight(
  loss: tf.Tensor, weight: tf.Tensor, t: float
) -> tf.Tensor:
  """Returns log p_k + t f_k; its softmax over the cohort is c.

  Args:
    loss: float64[m], f_k.
    weight: float64[m], p_k up to a constant factor.
    t: The tilt.

  Returns:
    float64[m].
  """
  return tf.math.log(weight) + t * loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class TermRule(types.SeparableRule):
  """TERM's coefficients."""

  t: float = hparam(
    1.0,
    "Tilt; 0 recovers FedAvg, a large one follows the largest loss, a negative "
    "one the smallest.",
  )

  signals = ("loss",)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(tf.nn.softmax(self.log_weight(cohort)), state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tilted_log_weight(cohort.loss, cohort.weight, self.t)


build_term = building.rule_builder(TermRule, "term")


@summing.factory_of(TermRule)
class TermFactory(summing.RuleFactory):
  """Sums client updates as TERM does; see this module."""
