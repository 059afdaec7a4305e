"""The sum of a round with noise, over a fixed denominator.

  d = (sum_k clip(s_k Delta_k) + noise) / m

See `tff_fair.privacy.differential`. It is for rules whose c_k / p_k = s_k
depends on client k alone, where all clients weigh the same: then nothing that
one client reports changes what another one adds.

The server steps even if no client counted: a missing step would reveal it.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.privacy import differential
from tff_fair.summing import client_sums, rule_application, scalars


def build_private(
  reader: scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  settings: differential.DifferentialPrivacy,
  *,
  sum_factory: client_sums.Factory | None = None,
  securely: bool = False,
) -> tff.templates.AggregationProcess:
  """Builds the process; see `tff_fair.aggregators.RuleFactory`.

  Args:
    reader: Reads the scalars the rule needs; all clients weigh the same.
    value_type: The type of a client's update.
    weight_type: The type of its weight.
    settings: Noise, clip, and the size of cohorts.
    sum_factory: Adds what clients send; `None` is a plain sum, or TFF's secure
      one.
    securely: Whether it is the latter.

  Returns:
    A process whose result is a `RoundUpdate` of `value_type`.
  """
  rule = reader.rule
  assert isinstance(rule, types.SeparableRule)  # `RuleFactory` checks it.

  def terms(update: types.TensorStructure, weight: Any) -> client_sums.Terms:
    row = reader.read(update, weight)
    factor = tf.exp(rule.log_weight(reader.unordered_cohort(row)))
    clipped = differential.clipped(update, tf.reduce_sum(factor), settings.clip)
    return client_sums.counted(row, {client_sums.UPDATE: clipped})

  def finish(
    state: types.TensorStructure, totals: Any
  ) -> rule_application.Round:
    direction = differential.noised_mean(totals[client_sums.UPDATE], settings)
    reported = client_sums.reported(totals[client_sums.COUNTS])
    reported["direction_norm"] = rule_application.direction_norm(direction)
    result = rule_application.round_update(
      direction,
      tf.constant(settings.clients_per_round, tf.int32),
      collections.OrderedDict(),
    )
    return state, result, reported

  return client_sums.build_client_sums(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    terms=terms,
    factories=_factories(settings.clip, sum_factory, securely),
    finish=finish,
  )


def _factories(
  clip: float, sum_factory: client_sums.Factory | None, securely: bool
) -> dict[str, client_sums.Factory]:
  """Returns what adds counts and updates; no entry is larger than the clip."""
  if securely and sum_factory is None:
    return {
      client_sums.COUNTS: client_sums.secure_counts(),
      client_sums.UPDATE: tff.aggregators.SecureSumFactory(float(clip)),
    }
  plain = sum_factory or tff.aggregators.SumFactory()
  return {client_sums.COUNTS: plain, client_sums.UPDATE: plain}
