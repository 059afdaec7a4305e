"""FedFA: weights by accuracy and by participation.

Huang, Li, Wang, Du, Zhang, "Fairness and Accuracy in Federated Learning" (arXiv
2012.10069), with SGD with momentum at the clients and at the server.

  A_k = -log2(a_k / sum a),  F_k = -log2(1 - s_k / sum s)
  each normalized to sum 1 over the cohort (uniform if its sum is 0)
  c_k = (1 - b) A_k + b F_k

a_k is client k's accuracy, and s_k the number of rounds in which it has taken
part, including this one; sums are over the cohort. Arguments of the logarithms
are clipped to [1e-6, 1].

Choice made here: the counts are in a table with a row for each client seen so
far, so that the population need not be known.
"""

import dataclasses
from typing import NamedTuple, Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, rounds, summing, types
from tff_fair.kernels import stacking
from tff_fair.methods import building

_LEAST_ARGUMENT = 1e-6


class ParticipationCounts(NamedTuple):
  """The number of rounds in which each client took part, by ascending id."""

  client_id: tf.Tensor
  count: tf.Tensor


def count_participation(
  counts: ParticipationCounts, client_id: tf.Tensor
) -> tuple[ParticipationCounts, tf.Tensor]:
  """Returns the counts after a round, and the counts s_k of its clients."""
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
  """Returns -log2 of shares, float64[clients], normalized to sum 1.

  Shares are clipped to [1e-6, 1]; the result is uniform if -log2 is 0 for all
  shares.
  """
  bits = -tf.math.log(tf.clip_by_value(share, _LEAST_ARGUMENT, 1.0))
  total = tf.reduce_sum(bits)
  uniform = tf.ones_like(bits) / tf.cast(tf.size(bits), bits.dtype)
  return tf.where(total > 0, tf.math.divide_no_nan(bits, total), uniform)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedFaRule(types.Rule):
  """Chooses FedFA's coefficients; the state is a `ParticipationCounts`."""

  b: float = declared.value(
    0.5,
    "Weight of participation; accuracy has the weight 1 - b.",
    minimum=0,
    maximum=1,
  )

  signals = ("accuracy",)

  def initialize(self) -> ParticipationCounts:
    """See the base class."""
    count = tf.TensorSpec([], tf.int64)
    return stacking.no_rows(ParticipationCounts(stacking.CLIENT_ID_SPEC, count))

  def coefficients(
    self, cohort: types.Cohort, state: ParticipationCounts
  ) -> types.RuleOutput:
    """See the base class."""
    counts, num_rounds = count_participation(state, cohort.client_id)
    times = tf.cast(num_rounds, tf.float64)
    accuracy = tf.math.divide_no_nan(
      cohort.accuracy, tf.reduce_sum(cohort.accuracy)
    )
    return types.RuleOutput(
      (1.0 - self.b) * surprisal_shares(accuracy)
      + self.b * surprisal_shares(1.0 - times / tf.reduce_sum(times)),
      counts,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Momenta(declared.Hyperparameters):
  """The settings of FedFA's momentum at the clients and at the server."""

  client_momentum: float = declared.value(
    0.9,
    "Momentum of the clients' SGD.",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
    in_float32=True,
  )
  server_momentum: float = declared.value(
    0.5,
    "Momentum of the server's SGD.",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
    in_float32=True,
  )


@building.builder(FedFaRule, Momenta)
def build_fedfa(
  model_fn: rounds.ModelFn,
  rule: FedFaRule,
  momenta: Momenta,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedFA.

  The client and the server optimizer must be plain SGD, to which a momentum is
  added. An optimizer whose momentum is 0 may be of any kind.
  """
  options["client_optimizer"] = _with_momentum(
    "client", options["client_optimizer"], momenta.client_momentum
  )
  options["server_optimizer"] = _with_momentum(
    "server",
    rounds.server_optimizer_or_default(options.get("server_optimizer")),
    momenta.server_momentum,
  )
  return rounds.compose(model_fn, rule, **options)


def _with_momentum(
  place: str, optimizer: rounds.Optimizer, momentum: float
) -> rounds.Optimizer:
  """Returns SGD with an optimizer's learning rate and a momentum.

  If the momentum is 0, returns the optimizer unchanged; otherwise it must be
  plain SGD. `place` is "client" or "server", for error messages.
  """
  if momentum == 0:
    return optimizer
  rounds.check_optimizer(f"{place}_optimizer", optimizer)
  if not rounds.is_plain_sgd(optimizer):
    raise declared.FieldError(
      f"{place}_optimizer",
      f"FedFA gives the {place} optimizer a momentum of {momentum}, which "
      f"takes plain SGD without momentum; found {type(optimizer).__name__}. "
      f"Pass tff.learning.optimizers.build_sgdm(learning_rate), or set "
      f"{place}_momentum to 0 to keep it.",
    )
  rate = rounds.learning_rate(optimizer)
  assert rate is not None  # SGD has a learning rate.
  return tff.learning.optimizers.build_sgdm(rate, momentum)


@summing.factory_of(FedFaRule)
class FedFaFactory(summing.RuleFactory):
  """Sums client updates with FedFA's coefficients."""
