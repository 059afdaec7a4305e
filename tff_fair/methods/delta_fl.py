"""Delta-FL: the superquantile of the losses.

Pillutla, Laguel, Malick, Harchaoui, "Federated Learning with Superquantile
Aggregation for Heterogeneous Data" (Machine Learning, 2023).

  keep S' = {k : f_k >= the (1 - alpha) quantile of f under p}
  c_k = p_k / sum_{j in S'} p_j on S', else 0

f_k is client k's loss, p_k its weight, and c_k its coefficient. The quantile is
the smallest f whose cumulative p reaches 1 - alpha. It is computed as the
smallest f above which p adds up to at most alpha, with a tolerance proportional
to alpha, which stays precise for alpha near 0. All clients with a loss equal to
the quantile are kept.

If the server knows only sums, four sums find the quantile. Each shows how much
weight is in each of 64 equally wide bins of an interval, at first [-B, B],
where B is `loss_bound`; the bin with the quantile is the next interval. Clients
whose losses are at or above the lower end of the last such bin are kept. These
are the clients of S', unless another loss is less than 2 B / 64^4 below the
quantile.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.methods import building

# Each weight and each addition has at most half of this relative error.
_RELATIVE_ROUNDING = np.finfo(np.float64).eps
# The number of bins into which each phase of secure sums divides an interval.
_BINS = 64
_SUM_ROUNDING = 1e-8  # Relative rounding error of the bins' total weight.


def weighted_upper_quantile(
  values: tf.Tensor, weights: tf.Tensor, share: float
) -> tf.Tensor:
  """Returns the (1 - share) quantile of m `values`, float64[m], as float64[].

  It is the smallest value such that the weights of larger values add up to at
  most `share`. Weights are positive and sum to 1.
  """
  order = tf.argsort(values, direction="DESCENDING")
  # Weights are summed from the largest value down, so that small sums, which
  # decide for a small `share`, are precise.
  above = tf.cumsum(tf.gather(weights, order), exclusive=True)
  rounding = 4 * _RELATIVE_ROUNDING * tf.cast(tf.size(values), above.dtype)
  reached = above <= tf.constant(share, above.dtype) * (1.0 + rounding)
  place = tf.reduce_sum(tf.cast(reached, tf.int32)) - 1
  return tf.gather(values, order[place])


def quantile_bin(weights: Sequence[tf.Tensor], share: float) -> tf.Tensor:
  """Returns the bin of the (1 - share) quantile, int64[].

  Each item of `weights`, float64[64], has the sum of the clients' weights in
  each of 64 bins: the first item's bins divide the whole interval, and each
  further item's bins divide the previous item's bin with the quantile. The
  result is the index that the quantile's bin has if bins of the last item's
  width divide the whole interval.
  """
  found, weight_above = tf.zeros([], tf.int64), tf.zeros([], tf.float64)
  for of_bins in weights:
    total = tf.reduce_sum(weights[0])
    limit = (tf.constant(share, total.dtype) + _SUM_ROUNDING) * total
    above = weight_above + tf.cumsum(of_bins, exclusive=True, reverse=True)
    reached = tf.reduce_sum(tf.cast(above <= limit, tf.int64))
    place = _BINS - tf.maximum(reached, 1)
    found, weight_above = _BINS * found + place, above[place]
  return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaFlRule(types.BinningRule):
  """Chooses Delta-FL's coefficients."""

  alpha: float = declared.value(
    0.5,
    "Share of the clients, by weight, that the objective covers; 1 recovers "
    "FedAvg.",
    minimum=0,
    maximum=1,
    exclude_minimum=True,
  )

  num_phases = 4
  num_bins = _BINS**num_phases

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

  def phase(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns w_k in the bin of f_k, 0 in all others; see the base class.

    A client whose f_k is not in the interval of this phase has only zeros.
    """
    bins = self.bins(cohort.loss) // _BINS ** (self.num_phases - 1 - len(known))
    in_interval = tf.equal(bins // _BINS, quantile_bin(known, self.alpha))
    weight = tf.where(in_interval, cohort.weight, tf.zeros_like(cohort.weight))
    one_hot = tf.one_hot(bins % _BINS, _BINS, dtype=tf.float64)
    return weight[:, tf.newaxis] * one_hot

  def factors(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns w_k if client k is kept, else 0; see the base class."""
    kept = self.bins(cohort.loss) >= quantile_bin(known, self.alpha)
    weight = tf.where(kept, cohort.weight, tf.zeros_like(cohort.weight))
    return weight[:, tf.newaxis]

  def levels(
    self, known: Sequence[tf.Tensor], total: tf.Tensor
  ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
    """See the base class."""
    share = tf.math.divide_no_nan(total[0], tf.reduce_sum(known[0]))
    return tf.math.reciprocal_no_nan(total), {"share_kept": share}


build_delta_fl = building.rule_builder(DeltaFlRule, "delta_fl")


@summing.factory_of(DeltaFlRule)
class DeltaFlFactory(summing.RuleFactory):
  """Sums client updates with Delta-FL's coefficients."""
