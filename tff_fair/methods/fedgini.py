"""FedGini: weights by the rank of the loss, from the Gini coefficient.

Li, Zhao, Chen, Zheng, "Heterogeneity-Aware Fair Federated Learning"
(Information Sciences, 2023).

  w_k = 1 + (1 - epsilon) i_k (i_k + 1) / D,  D = (m - 1) m (m + 1) / 3
  c_k = w_k / sum_j w_j

For m clients, i_k is the rank of client k's loss f_k, from 0 for the smallest
to m - 1, and D is the sum of all i (i + 1). epsilon = 1 weights clients
equally. The clients' usual weights p_k are not used.

Choices made here: i_k is the rank of f_k (a published program uses the sorted
order of the clients instead); clients with equal losses each get the mean of
their weights.

If the server knows only sums, a first sum shows clients how many losses are in
each of 1,024 equally wide bins of [-B, B], where B is `loss_bound`. Losses in
the same bin count as equal.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building, gifair


def gini_weights(
  lower: tf.Tensor, equal: tf.Tensor, number: tf.Tensor, epsilon: float
) -> tf.Tensor:
  """Returns the clients' weights w_k, float64[m].

  For each client k, `lower` counts the losses below f_k, and `equal` those
  equal to f_k, including f_k itself; `number` is m.
  """
  share = tf.math.divide_no_nan(
    _sum_of_terms(lower + equal) - _sum_of_terms(lower),
    equal * _sum_of_terms(number),
  )
  return 1.0 + (1.0 - epsilon) * share


def _sum_of_terms(number: tf.Tensor) -> tf.Tensor:
  """Returns the sum of i (i + 1) for i = 0, ..., number - 1."""
  return (number - 1.0) * number * (number + 1.0) / 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedGiniRule(gifair.RankingRule):
  """Chooses FedGini's coefficients."""

  epsilon: float = declared.value(
    0.5,
    "How equal the weights of clients are; 1 recovers FedAvg with equal "
    "weights.",
    minimum=0,
    maximum=1,
  )

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    loss, other = cohort.loss[:, tf.newaxis], cohort.loss[tf.newaxis, :]
    lower, equal = (
      tf.reduce_sum(tf.cast(holds, tf.float64), 1)
      for holds in (other < loss, tf.equal(other, loss))
    )
    number = tf.cast(tf.size(cohort.loss), tf.float64)
    weight = gini_weights(lower, equal, number, self.epsilon)
    return types.RuleOutput(weight / tf.reduce_sum(weight), state)

  def factors(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns w_k; see the base class."""
    counts, bins = tf.round(known[0]), self.bins(cohort.loss)
    lower = tf.gather(tf.cumsum(counts, exclusive=True), bins)
    equal = tf.gather(counts, bins)
    weight = gini_weights(lower, equal, tf.reduce_sum(counts), self.epsilon)
    return weight[:, tf.newaxis]


build_fedgini = building.rule_builder(FedGiniRule, "fedgini")


@summing.factory_of(FedGiniRule)
class FedGiniFactory(summing.RuleFactory):
  """Sums client updates with FedGini's coefficients."""
