"""DRFL: dynamic reweighting by powers of the losses.

Zhao, Joshi, "A Dynamic Reweighting Strategy for Fair Federated Learning"
(ICASSP 2022).

  c_k = p_k f_k^q / sum_j p_j f_j^q

f_k is client k's loss, p_k its weight, and c_k its coefficient. q = 0 recovers
FedAvg. Choices made here: losses below zero, whose powers may be undefined, are
set to zero. If all losses are 0, c = p; or c = 0 if the server knows only sums.
"""

import dataclasses

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building

# A number below the logarithm of every positive float64.
_LOG_OF_ZERO = -1000.0


def log_power(loss: tf.Tensor, q: float) -> tf.Tensor:
  """Returns log(f_k^q), float64[clients], with a finite number for log 0.

  It is finite so that the softmax of log p_k + log(f_k^q) is p if all losses
  are 0.
  """
  exponent = tf.constant(q, loss.dtype)
  positive = loss > 0
  log_loss = tf.math.log(tf.where(positive, loss, tf.ones_like(loss)))
  # Less than exponent * log_loss for every positive loss and every q.
  nothing = (exponent + 1.0) * _LOG_OF_ZERO
  return tf.where(
    tf.equal(exponent, 0.0),
    tf.zeros_like(loss),
    tf.where(positive, exponent * log_loss, nothing),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrflRule(types.SeparableRule):
  """Chooses DRFL's coefficients."""

  q: float = declared.value(
    1.0, "Emphasis on clients with large losses; 0 recovers FedAvg.", minimum=0
  )

  signals = ("loss",)
  counts_negative_as_zero = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(tf.nn.softmax(self.log_weight(cohort)), state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(cohort.weight) + log_power(cohort.loss, self.q)

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(tf.math.reciprocal_no_nan(sums.scale))


build_drfl = building.rule_builder(DrflRule, "drfl")


@summing.factory_of(DrflRule)
class DrflFactory(summing.RuleFactory):
  """Sums client updates with DRFL's coefficients."""
