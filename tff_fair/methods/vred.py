"""VRed and Semi-VRed: the mean loss plus the variance, or semi-variance.

Malekmohammadi, Yu, "Semi-Variance Reduction for Fair Federated Learning"
(arXiv 2406.16193), Algorithm 1, Lemmas 1 and 2 (Eqs. 8 and 12), here with
client weights p_k. f_k is client k's loss, and c_k its coefficient.

  f_bar = sum_k p_k f_k
  a_k = f_k - f_bar  (VRed),  [f_k - f_bar]_+  (Semi-VRed)
  c_k = p_k (1 + 2 beta (a_k - sum_j p_j a_j))

Some coefficients are negative if beta exceeds the paper's bound
beta_max = 1 / (2 (sum_j p_j a_j - min_k a_k)). This is allowed. Each round
reports beta_max, unless the server knows only sums.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building


def _output(
  deviation: tf.Tensor, weight: tf.Tensor, beta: float, state: tuple[()]
) -> types.RuleOutput:
  """Returns c_k and beta_max, from a_k and p_k, float64[clients] each.

  beta_max is infinite if all a_k are equal.
  """
  centred = deviation - tf.reduce_sum(weight * deviation)
  lowest = tf.reduce_min(centred)
  beta_max = tf.where(
    lowest < 0, -0.5 / lowest, tf.constant(float("inf"), lowest.dtype)
  )
  coefficients = weight * (1.0 + 2.0 * beta * centred)
  return types.RuleOutput(coefficients, state, {"beta_max": beta_max})


@dataclasses.dataclass(frozen=True, kw_only=True)
class VRedRule(types.SeparableRule):
  """Chooses VRed's coefficients, Eq. 8."""

  beta: float = declared.value(
    0.1, "Weight of the variance; 0 recovers FedAvg.", minimum=0
  )

  signals = ("loss",)
  takes_gaps = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    # `_output` subtracts the mean of its argument, so f_k replaces f_k - f_bar.
    return _output(cohort.loss, cohort.weight, self.beta, state)

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(cohort.weight)

  def covariate(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return cohort.loss

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class; beta_max is not reported: no sum determines it."""
    mean, second = (
      tf.math.divide_no_nan(moment, sums.scale)
      for moment in (sums.first_moment, sums.second_moment)
    )
    level = tf.math.reciprocal_no_nan(sums.scale)
    return types.SumsOutput(
      level * (1.0 - 2.0 * self.beta * mean),
      level * (2.0 * self.beta),
      {"loss_variance": tf.nn.relu(second - tf.square(mean))},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SemiVRedRule(types.ComparingRule):
  """Chooses Semi-VRed's coefficients, Eq. 12.

  If the server knows only sums, a first sum shows clients the mean loss f_bar.
  """

  beta: float = declared.value(
    0.1, "Weight of the semi-variance; 0 recovers FedAvg.", minimum=0
  )

  signals = ("loss",)
  takes_gaps = True
  num_factors = 2

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    mean_loss = tf.reduce_sum(cohort.weight * cohort.loss)
    return _output(
      tf.nn.relu(cohort.loss - mean_loss), cohort.weight, self.beta, state
    )

  def phase(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns w_k and w_k f_k; see the base class."""
    del known
    return tf.stack([cohort.weight, cohort.weight * cohort.loss], 1)

  def factors(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns w_k and w_k a_k; see the base class."""
    weight, weighted_loss = tf.unstack(known[0])
    mean_loss = tf.math.divide_no_nan(weighted_loss, weight)
    deviation = tf.nn.relu(cohort.loss - mean_loss)
    return tf.stack([cohort.weight, cohort.weight * deviation], 1)

  def levels(
    self, known: Sequence[tf.Tensor], total: tf.Tensor
  ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
    """See the base class; beta_max is not reported: no sum determines it."""
    weight, weighted_loss = tf.unstack(known[0])
    inverse = tf.math.reciprocal_no_nan(total[0])
    slope = tf.constant(2.0 * self.beta, tf.float64)
    levels = inverse * tf.stack([1.0 - slope * inverse * total[1], slope])
    mean_loss = tf.math.divide_no_nan(weighted_loss, weight)
    return levels, {"weighted_loss_mean": mean_loss}


build_vred = building.rule_builder(VRedRule, "vred")
build_semi_vred = building.rule_builder(SemiVRedRule, "semi_vred")


@summing.factory_of(VRedRule)
class VRedFactory(summing.RuleFactory):
  """Sums client updates with VRed's coefficients."""


@summing.factory_of(SemiVRedRule)
class SemiVRedFactory(summing.RuleFactory):
  """Sums client updates with Semi-VRed's coefficients."""
