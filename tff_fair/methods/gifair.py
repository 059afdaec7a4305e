"""GiFair-FL: weights by the rank of the loss.

Yue, Nouiehed, Al Kontar, "GIFAIR-FL: A Framework for Group and Individual
Fairness in Federated Learning" (INFORMS Journal on Data Science, 2023), with
each client a group of its own.

  r_k = sum_{j != k} sign(f_k - f_j)
  lambda = fraction * min_k p_k / (m - 1)
  c_k = p_k + lambda r_k

|r_k| <= m - 1, so a fraction below 1 keeps every coefficient positive.
"""

import dataclasses

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building


def rank_scores(loss: tf.Tensor) -> tf.Tensor:
  """Returns r_k: smaller losses minus larger ones.

  Args:
    loss: float64[m], f_k.

  Returns:
    float64[m]; sums to 0.
  """
  # Comparisons, because a difference of tiny losses may underflow to 0.
  above = loss[:, tf.newaxis] > loss[tf.newaxis, :]
  below = loss[:, tf.newaxis] < loss[tf.newaxis, :]
  return tf.reduce_sum(
    tf.cast(above, loss.dtype) - tf.cast(below, loss.dtype), axis=1
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GiFairRule(types.Rule):
  """GiFair's coefficients."""

  fraction: float = declared.value(
    0.5,
    "Share of the largest lambda that keeps coefficients non-negative; 0 "
    "recovers FedAvg.",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
  )

  signals = ("loss",)
  takes_gaps = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    others = tf.cast(tf.size(cohort.loss) - 1, tf.float64)
    strength = self.fraction * tf.math.divide_no_nan(
      tf.reduce_min(cohort.weight), others
    )
    return types.RuleOutput(
      cohort.weight + strength * rank_scores(cohort.loss),
      state,
      {"rank_strength": strength},
    )


build_gifair = building.rule_builder(GiFairRule, "gifair")


@summing.factory_of(GiFairRule)
class GiFairFactory(summing.RuleFactory):
  """Sums client updates as GiFair-FL does; see this module."""
