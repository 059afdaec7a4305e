"""Adds noise to the sum of a round, for differential privacy.

McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent
Language Models" (ICLR 2018), the estimator with a fixed denominator:

  d = (sum_k clip(s_k Delta_k) + N(0, (z C)^2)) / m

C is the clip, z the noise multiplier, m the fixed size of a cohort, Delta_k the
update of client k, and s_k a factor that depends only on client k. So whatever
a client sends, adding or removing the client changes the sum by at most C, and
replacing its data by at most 2 C.
"""

import dataclasses

import tensorflow as tf

from tff_fair import declared, types
from tff_fair.kernels import norms


@dataclasses.dataclass(frozen=True)
class DifferentialPrivacy:
  """The noise on a round's sum, and the bound on a client's contribution.

  Attributes:
    noise_multiplier: z, the standard deviation of the noise divided by the
      clip; 0 adds no noise, and protects no client.
    clients_per_round: m, the size of a cohort; the sum is divided by m, however
      many clients report back.
    clip: C, the largest norm of a client's contribution to the sum.
  """

  noise_multiplier: float
  clients_per_round: int
  clip: float

  def __post_init__(self) -> None:
    """Checks the values.

    Raises:
      TypeError: If an attribute has the wrong type.
      FieldError: If an attribute has a wrong value.
    """
    declared.check_number("noise_multiplier", self.noise_multiplier, minimum=0)
    declared.check_integer(
      "clients_per_round", self.clients_per_round, minimum=1
    )
    declared.check_number(
      "clip", self.clip, minimum=0, exclude_minimum=True, in_float32=True
    )

  @property
  def noise_stddev(self) -> float:
    """The standard deviation z C of the noise on each entry of the sum."""
    return self.noise_multiplier * self.clip


dp = DifferentialPrivacy  # Named after builders' and factories' option `dp`.


def scale_and_clip(
  update: types.TensorStructure, factor: tf.Tensor, clip: float
) -> types.TensorStructure:
  """Returns `factor` times `update`, shortened to the norm `clip` if longer.

  The norm is computed in float64: TFF's own clipping uses float32, in which an
  update with entries of 1e30 has an infinite norm and becomes NaN.
  """
  norm = factor * tf.sqrt(norms.squared_norm(update))
  longest = tf.constant(clip, tf.float64)
  shortened = tf.where(norm > longest, longest / norm, tf.ones_like(norm))
  scale = factor * shortened
  return tf.nest.map_structure(
    lambda layer: tf.cast(scale * tf.cast(layer, tf.float64), layer.dtype),
    update,
  )


def noisy_mean(
  total: types.TensorStructure, settings: DifferentialPrivacy
) -> types.TensorStructure:
  """Adds noise to a round's sum, and divides it by the fixed cohort size."""

  def of_layer(layer: tf.Tensor) -> tf.Tensor:
    noise = tf.random.normal(
      tf.shape(layer), stddev=settings.noise_stddev, dtype=tf.float64
    )
    mean = (tf.cast(layer, tf.float64) + noise) / settings.clients_per_round
    return tf.cast(mean, layer.dtype)

  return tf.nest.map_structure(of_layer, total)
