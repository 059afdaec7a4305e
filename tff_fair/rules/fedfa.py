"""FedFA: weights by accuracy and by participation.

Huang, Li, Wang, Du, Zhang, Yang, "Fairness and Accuracy in Federated Learning"
(2020).

  A_k = -log2(a_k / sum a),  F_k = -log2(1 - s_k / sum s)
  each normalized to sum 1 over the cohort (uniform where its sum is 0)
  c_k = (1 - b) A_k + b F_k

s_k counts how often client k has taken part, this round included; sums run over
the cohort. Arguments of the logarithms are held in [1e-6, 1].

Choice made here: the counts live in a table that grows with the clients seen,
so that the population need not be known.
"""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from tff_fair import checks, types
from tff_fair.kernels import stacking

_LEAST_ARGUMENT = 1e-6


class ParticipationCounts(NamedTuple):
  """How often each client has taken part.

  Attributes:
    client_id: int64[K], ascending, the clients seen so far.
    count: int64[K].
  """

  client_id: tf.Tensor
  count: tf.Tensor


def count_participation(
  counts: ParticipationCounts, client_id: tf.Tensor
) -> tuple[ParticipationCounts, tf.Tensor]:
  """Counts the cohort in.

  Args:
    counts: The counts before the round.
    client_id: int64[m], the cohort.

  Returns:
    The counts after the round, and s_k, int64[m].
  """
  ids, places = tf.unique(tf.concat([counts.client_id, client_id], 0))
  total = tf.math.unsorted_segment_sum(
    tf.concat([counts.count, tf.ones_like(client_id)], 0),
    places,
    tf.size(ids),
  )
  order = tf.argsort(ids)
  cohort_places = places[tf.size(counts.client_id) :]
  return (
    ParticipationCounts(tf.gather(ids, order), tf.gather(total, order)),
    tf.gather(total, cohort_places),
  )


def surprisal_shares(share: tf.Tensor) -> tf.Tensor:
  """Returns -log2 of shares, normalized to sum 1.

  Args:
    share: float64[m], held in [1e-6, 1].

  Returns:
    float64[m]; uniform where every surprisal is 0.
  """
  bits = -tf.math.log(tf.clip_by_value(share, _LEAST_ARGUMENT, 1.0))
  total = tf.reduce_sum(bits)
  uniform = tf.ones_like(bits) / tf.cast(tf.size(bits), bits.dtype)
  return tf.where(total > 0, tf.math.divide_no_nan(bits, total), uniform)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedFaRule(types.Rule):
  """FedFA's coefficients; the state is a `ParticipationCounts`.

  Attributes:
    b: Weight of participation against accuracy, in [0, 1].
  """

  b: float = 0.5

  signals = ("accuracy",)

  def __post_init__(self) -> None:
    """Checks the hyperparameters."""
    checks.check_number("b", self.b, minimum=0, maximum=1)

  def initialize(self) -> ParticipationCounts:
    """See the base class."""
    scalar = tf.TensorSpec([], tf.int64)
    return ParticipationCounts(
      stacking.no_rows(scalar), stacking.no_rows(scalar)
    )

  def coefficients(
    self, cohort: types.Cohort, state: ParticipationCounts
  ) -> types.RuleOutput:
    """See the base class."""
    counts, taken_part = count_participation(state, cohort.client_id)
    times = tf.cast(taken_part, tf.float64)
    accuracy = tf.math.divide_no_nan(
      cohort.accuracy, tf.reduce_sum(cohort.accuracy)
    )
    return types.RuleOutput(
      (1.0 - self.b) * surprisal_shares(accuracy)
      + self.b * surprisal_shares(1.0 - times / tf.reduce_sum(times)),
      counts,
    )
