"""Delta-FL: the superquantile of the losses.

Pillutla, Laguel, Malick, Harchaoui, "Federated Learning with Superquantile
Aggregation for Heterogeneous Data" (Machine Learning, 2023).

  keep S' = {k : f_k >= the (1 - alpha) quantile of f under p}
  c_k = p_k / sum_{j in S'} p_j on S', else 0

The quantile is the smallest f whose cumulative p reaches 1 - alpha; that it is
reached is judged up to rounding. Clients with a loss equal to it are all kept.
"""

import dataclasses

import tensorflow as tf

from tff_fair import checks, types

_ROUNDING = 1e-9


def weighted_quantile(
  values: tf.Tensor, weights: tf.Tensor, level: float
) -> tf.Tensor:
  """Returns the smallest value whose cumulative weight reaches a level.

  Args:
    values: float64[m].
    weights: float64[m], positive, sums to 1.
    level: In [0, 1].

  Returns:
    float64[].
  """
  order = tf.argsort(values)
  cumulative = tf.cumsum(tf.gather(weights, order))
  reached = tf.constant([level - _ROUNDING], cumulative.dtype)
  place = tf.searchsorted(cumulative, reached)[0]
  last = tf.size(values) - 1
  return tf.gather(values, order[tf.minimum(place, last)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaFlRule(types.Rule):
  """Delta-FL's coefficients.

  Attributes:
    alpha: Share of the clients, by weight, that the objective looks at, in
      (0, 1]; 1 recovers FedAvg.
  """

  alpha: float = 0.5

  signals = ("loss",)

  def __post_init__(self) -> None:
    """Checks the hyperparameters."""
    checks.check_number(
      "alpha", self.alpha, minimum=0, maximum=1, exclude_minimum=True
    )

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    quantile = weighted_quantile(cohort.loss, cohort.weight, 1.0 - self.alpha)
    kept = tf.cast(cohort.loss >= quantile, tf.float64)
    weight = kept * cohort.weight
    return types.RuleOutput(
      weight / tf.reduce_sum(weight),
      state,
      {"num_clients_kept": tf.cast(tf.reduce_sum(kept), tf.int32)},
    )
