"""q-FedAvg: the q-fair objective sum_k F_k^(q+1) / (q + 1).

Li, Sanjabi, Beirami, Smith, "Fair Resource Allocation in Federated Learning"
(ICLR 2020), Algorithm 2.

  L = 1/eta,  w_k = L Delta_k
  d = sum_k f_k^q w_k / sum_k (q f_k^(q-1) ||w_k||^2 + L f_k^q)

Client k has the loss f_k, the update Delta_k and the learning rate eta. L
estimates the Lipschitz constant of the clients' gradients; the hyperparameter
`lipschitz` replaces 1/eta if L is tuned separately.

Clients are unweighted. Choices made here: the losses are divided by the largest
loss before they are raised to powers, which does not change d and keeps the
powers finite; a loss of zero with 0 < q < 1 makes the term with f_k^(q-1)
infinite, hence d = 0, unless that client's update is zero, too. Losses below
zero, which the objective does not allow, are set to zero. If the server knows
only sums, it does not know the largest loss; a client is then excluded if a
power, such as the infinite term, exceeds the bounds of the sums.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building


def qfedavg_coefficients(
  loss: tf.Tensor, squared_norm: tf.Tensor, lipschitz: tf.Tensor, q: float
) -> tf.Tensor:
  """Returns c_k = L f_k^q / sum_j (q f_j^(q-1) ||w_j||^2 + L f_j^q).

  w_j is L times client j's update. c, `loss` (f), `squared_norm` (of the
  updates) and `lipschitz` (L) are float64[clients]. q = 0 recovers the
  unweighted mean.
  """
  # Not by `tf.cast`, which would first round a Python number to float32.
  exponent = tf.constant(q, loss.dtype)
  loss = tf.maximum(loss, tf.zeros_like(loss))
  scale = tf.reduce_max(loss)
  scale = tf.where(scale > 0, scale, tf.ones_like(scale))
  relative = loss / scale
  power = tf.pow(relative, exponent)
  squared_w = tf.square(lipschitz) * squared_norm
  curvature = _curvature(relative, squared_w, scale, q)
  return lipschitz * tf.math.divide_no_nan(
    power, tf.reduce_sum(curvature + lipschitz * power)
  )


def _curvature(
  relative: tf.Tensor, squared_w: tf.Tensor, scale: tf.Tensor, q: float
) -> tf.Tensor:
  """Returns q (f_k/s)^(q-1) ||w_k||^2 / s; 0 if q or the update is 0.

  `relative`, 0 or more, is f_k / s and `squared_w` is ||w_k||^2; both are
  float64[clients]. `scale` is s, float64[].
  """
  exponent = tf.constant(q, relative.dtype)
  return tf.where(
    tf.logical_or(tf.equal(squared_w, 0), tf.equal(q, 0)),
    tf.zeros_like(relative),
    exponent * tf.pow(relative, exponent - 1) / scale * squared_w,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QFedAvgRule(types.SeparableRule):
  """Chooses q-FedAvg's coefficients."""

  q: float = declared.value(
    0.1,
    "Emphasis on clients with large losses; 0 recovers the unweighted mean.",
    minimum=0,
  )
  lipschitz: float | None = declared.value(
    None,
    "L; larger values make steps shorter. None means 1 / client learning rate.",
    **declared.ABOVE_0,
  )

  signals = ("loss", "learning_rate")
  counts_negative_as_zero = True
  geometry = types.Geometry.NORMS

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(
      qfedavg_coefficients(
        cohort.loss, cohort.squared_norm, self._lipschitz(cohort), self.q
      ),
      state,
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    loss = tf.maximum(cohort.loss, tf.zeros_like(cohort.loss))
    exponent = tf.constant(self.q, loss.dtype)
    # All clients of a round have the same L, but different L_k would work, too.
    return tf.math.xlogy(exponent, loss) + tf.math.log(self._lipschitz(cohort))

  def terms(self, cohort: types.Cohort) -> Mapping[str, tf.Tensor]:
    """See the base class; losses are not divided by the largest loss."""
    squared_w = tf.square(self._lipschitz(cohort)) * cohort.squared_norm
    loss = tf.nn.relu(cohort.loss)
    one = tf.ones([], loss.dtype)
    return {"curvature": _curvature(loss, squared_w, one, self.q)}

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(
      tf.math.reciprocal_no_nan(sums.terms["curvature"] + sums.scale)
    )

  def _lipschitz(self, cohort: types.Cohort) -> tf.Tensor:
    ones = tf.ones_like(cohort.loss)
    if self.lipschitz is not None:
      return tf.constant(self.lipschitz, ones.dtype) * ones
    # With a learning rate of 0, there are no updates to scale.
    return tf.math.divide_no_nan(ones, cohort.learning_rate)


build_qfedavg = building.rule_builder(QFedAvgRule, "qfedavg")


@summing.factory_of(QFedAvgRule)
class QFedAvgFactory(summing.RuleFactory):
  """Sums client updates with q-FedAvg's coefficients."""
