"""Delta-FL: the superquantile of the losses.

Pillutla, Laguel, Malick, Harchaoui, "Federated Learning with Superquantile
Aggregation for Heterogeneous Data" (Machine Learning, 2023).

  keep S' = {k : f_k >= the (1 - alpha) quantile of f under p}
  c_k = p_k / sum_{j in S'} p_j on S', else 0

The quantile is the smallest f whose cumulative p reaches 1 - alpha: the
smallest above which p adds up to no more than alpha, which also tells shares
next to 1 apart. It is judged up to rounding, relative to alpha. Clients with a
loss equal to the quantile are all kept.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building

# Each weight and each step of a sum is off by no more than half of it.
_RELATIVE_ROUNDING = np.finfo(np.float64).eps


def weighted_upper_quantile(
  values: tf.Tensor, weights: tf.Tensor, share: float
) -> tf.Tensor:
  """Returns the smallest value above which there is no more than a share.

  Args:
    values: float64[m].
    weights: float64[m], positive, sums to 1.
    share: Of the weights, in (0, 1].

  Returns:
    float64[], the (1 - share) quantile.
  """
  order = tf.argsort(values, direction="DESCENDING")
  # A sum of positive weights from the top is exact relative to itself.
  above = tf.cumsum(tf.gather(weights, order), exclusive=True)
  rounding = 4 * _RELATIVE_ROUNDING * tf.cast(tf.size(values), above.dtype)
  reached = above <= tf.constant(share, above.dtype) * (1.0 + rounding)
  place = tf.reduce_sum(tf.cast(reached, tf.int32)) - 1
  return tf.gather(values, order[place])


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaFlRule(types.Rule):
  """Delta-FL's coefficients."""

  alpha: float = declared.value(
    0.5,
    "Share of the clients, by weight, that the objective looks at; 1 recovers "
    "FedAvg.",
    minimum=0,
    maximum=1,
    exclude_minimum=True,
  )

  signals = ("loss",)
  takes_gaps = True

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    quantile = weighted_upper_quantile(cohort.loss, cohort.weight, self.alpha)
    kept = tf.cast(cohort.loss >= quantile, tf.float64)
    weight = kept * cohort.weight
    return types.RuleOutput(
      weight / tf.reduce_sum(weight),
      state,
      {"num_clients_kept": tf.cast(tf.reduce_sum(kept), tf.int32)},
    )


build_delta_fl = building.rule_builder(DeltaFlRule, "delta_fl")


@summing.factory_of(DeltaFlRule)
class DeltaFlFactory(summing.RuleFactory):
  """Sums client updates as Delta-FL does; see this module."""
