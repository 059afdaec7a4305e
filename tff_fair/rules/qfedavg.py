"""q-FedAvg: the q-fair objective sum_k F_k^(q+1) / (q + 1).

Li, Sanjabi, Beirami, Smith, "Fair Resource Allocation in Federated Learning"
(ICLR 2020), Algorithm 2.

  L = 1/eta,  w_k = L Delta_k
  d = sum_k f_k^q w_k / sum_k (q f_k^(q-1) ||w_k||^2 + L f_k^q)

Clients are unweighted. Choices made here: the losses are divided by the largest
before they are raised to powers, which leaves d as it is and keeps the powers
finite; a loss of zero with 0 < q < 1 makes the curvature term infinite, hence
d = 0, unless that client's update is zero too. Losses below zero, which the
objective does not allow, count as zero.
"""

import dataclasses

import tensorflow as tf

from tff_fair import checks, types


def qfedavg_coefficients(
  loss: tf.Tensor, squared_norm: tf.Tensor, learning_rate: tf.Tensor, q: float
) -> tf.Tensor:
  """Returns c_k = L f_k^q / sum_j (q f_j^(q-1) ||w_j||^2 + L f_j^q).

  Args:
    loss: float64[m], f_k.
    squared_norm: float64[m], ||Delta_k||^2.
    learning_rate: float64[m], eta; L = 1/eta.
    q: Non-negative; 0 recovers the unweighted mean.

  Returns:
    float64[m].
  """
  # Without a learning rate there are no updates to scale.
  lipschitz = tf.math.divide_no_nan(tf.ones_like(loss), learning_rate)
  # `tf.cast` of a Python number would take it through float32.
  exponent = tf.constant(q, loss.dtype)
  loss = tf.maximum(loss, tf.zeros_like(loss))
  scale = tf.reduce_max(loss)
  scale = tf.where(scale > 0, scale, tf.ones_like(scale))
  relative = loss / scale
  power = tf.pow(relative, exponent)
  # q f^(q-1) = q (f/s)^q / ((f/s) s); 0 where q or the update is 0.
  squared_w = tf.square(lipschitz) * squared_norm
  curvature = tf.where(
    tf.logical_or(tf.equal(squared_w, 0), tf.equal(q, 0)),
    tf.zeros_like(loss),
    exponent * tf.pow(relative, exponent - 1) / scale * squared_w,
  )
  return lipschitz * tf.math.divide_no_nan(
    power, tf.reduce_sum(curvature + lipschitz * power)
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QFedAvgRule(types.SeparableRule):
  """q-FedAvg's coefficients.

  Attributes:
    q: Fairness, 0 or more; 0 recovers the unweighted mean.
  """

  q: float = 0.1

  signals = ("loss", "learning_rate")
  geometry = types.Geometry.NORMS

  def __post_init__(self) -> None:
    """Checks the hyperparameters."""
    checks.check_number("q", self.q, minimum=0)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(
      qfedavg_coefficients(
        cohort.loss, cohort.squared_norm, cohort.learning_rate, self.q
      ),
      state,
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    loss = tf.maximum(cohort.loss, tf.zeros_like(cohort.loss))
    # L is the same for every client of a round, but need not be.
    lipschitz = tf.math.divide_no_nan(tf.ones_like(loss), cohort.learning_rate)
    exponent = tf.constant(self.q, loss.dtype)
    return tf.math.xlogy(exponent, loss) + tf.math.log(lipschitz)
