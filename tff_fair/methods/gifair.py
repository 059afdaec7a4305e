"""GiFair-FL: weights by the rank of the loss.

Yue, Nouiehed, Al Kontar, "GIFAIR-FL: A Framework for Group and Individual
Fairness in Federated Learning" (INFORMS Journal on Data Science, 2023), with
each client as a separate group.

  r_k = sum_{j != k} sign(f_k - f_j)
  lambda = fraction * min_k p_k / (m - 1)
  c_k = p_k + lambda r_k

Client k of m has the loss f_k and the weight p_k. |r_k| <= m - 1, so a fraction
below 1 keeps every coefficient c_k positive.

If the server knows only sums, clients have equal weights, p_k = 1/m, and a
first sum shows them how many losses are in each of 1,024 equally wide bins of
[-B, B], where B is `loss_bound`. Losses in the same bin count as equal, so the
error of r_k is at most the number of other losses in the bin of f_k. The number
of losses in the fullest bin is reported. If an update exceeds the bound of
secure sums, its client is excluded, and the coefficients of the remaining
clients are divided by their sum.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building


def rank_scores(loss: tf.Tensor) -> tf.Tensor:
  """Returns r_k, float64[m].

  It is the number of smaller losses minus the number of larger ones.
  """
  # Not by the sign of f_k - f_j, which may underflow to 0 for tiny losses.
  above = loss[:, tf.newaxis] > loss[tf.newaxis, :]
  below = loss[:, tf.newaxis] < loss[tf.newaxis, :]
  return tf.reduce_sum(
    tf.cast(above, loss.dtype) - tf.cast(below, loss.dtype), axis=1
  )


class RankingRule(types.BinningRule):
  """The base of rules that weight clients by the rank of their losses.

  If the server knows only sums, the rank is that of the loss's bin.
  """

  num_bins = 1024

  def phase(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns 1 in the bin of a client's loss, else 0; see the base class."""
    del known
    return tf.one_hot(self.bins(cohort.loss), self.num_bins, dtype=tf.float64)

  def levels(
    self, known: Sequence[tf.Tensor], total: tf.Tensor
  ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
    """See the base class."""
    largest = tf.reduce_max(tf.round(known[0]))
    return tf.math.reciprocal_no_nan(total), {"largest_bin": largest}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GiFairRule(RankingRule):
  """Chooses GiFair-FL's coefficients."""

  fraction: float = declared.value(
    0.5,
    "Share of the largest lambda that keeps coefficients non-negative; 0 "
    "recovers FedAvg.",
    **declared.BELOW_1,
  )

  needs_uniform_weights = True

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

  def factors(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns m c_k; see the base class.

    If no client is excluded, the sum of these factors is m.
    """
    counts = tf.round(known[0])
    lower = tf.cumsum(counts, exclusive=True)
    higher = tf.cumsum(counts, exclusive=True, reverse=True)
    rank = tf.gather(lower - higher, self.bins(cohort.loss))
    others = tf.reduce_sum(counts) - 1.0
    factor = 1.0 + self.fraction * tf.math.divide_no_nan(rank, others)
    return factor[:, tf.newaxis]


build_gifair = building.rule_builder(GiFairRule, "gifair")


@summing.factory_of(GiFairRule)
class GiFairFactory(summing.RuleFactory):
  """Sums client updates with GiFair-FL's coefficients."""
