"""TERM: tilted empirical risk minimization.

Li, Beirami, Sanjabi, Smith, "Tilted Empirical Risk Minimization" (ICLR 2021).

  c_k = p_k exp(t f_k) / sum_j p_j exp(t f_j)

f_k is client k's loss, p_k its weight, and c_k its coefficient. Choice made
here: the hyperparameter `loss_cap` may cap the losses, because secure sums need
a bound on exp(t f_k), which is unbounded if t > 0.
"""

import dataclasses

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class TermRule(types.SeparableRule):
  """Chooses TERM's coefficients."""

  t: float = declared.value(
    1.0,
    "Tilt; 0 recovers FedAvg, a large one follows the largest loss, a negative "
    "one the smallest.",
  )
  loss_cap: float | None = declared.value(
    None,
    "Losses above it count as it. None means no cap; secure sums need one if t "
    "is positive.",
  )

  signals = ("loss",)
  takes_gaps = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(tf.nn.softmax(self.log_weight(cohort)), state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """Returns log p_k + t f_k, whose softmax is c; see the base class."""
    loss = cohort.loss
    if self.loss_cap is not None:
      loss = tf.minimum(loss, tf.constant(self.loss_cap, loss.dtype))
    return tf.math.log(cohort.weight) + self.t * loss

  def log_reference(self) -> float:
    """Returns the largest possible t f_k; see the base class."""
    if self.t <= 0:
      return 0.0
    if self.loss_cap is None:
      raise declared.FieldError(
        "loss_cap",
        "TERM with secure sums needs the hyperparameter loss_cap: no sum shows "
        "the largest loss, which bounds exp(t f_k).",
      )
    return self.t * self.loss_cap

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(tf.math.reciprocal_no_nan(sums.scale))


build_term = building.rule_builder(TermRule, "term")


@summing.factory_of(TermRule)
class TermFactory(summing.RuleFactory):
  """Sums client updates with TERM's coefficients."""
