"""Secure and private aggregation: the server gets only sums over clients.

In secure aggregation,

  e_k = exp(l_k - r),  c_k = e_k (u + v x_k),  hence
  d = u sum_k e_k Delta_k + v sum_k e_k x_k Delta_k

`types.SeparableRule` explains l_k, r, u, v and the covariate x_k. Each client
adds the vector e_k Delta_k, the scalars w_k, e_k, e_k x_k and e_k x_k^2, and
the rule's own terms to secure sums; if the rule has a covariate, also the
vector e_k x_k Delta_k. The rule computes u and v from these sums
(`types.SeparableRule.from_sums`). One round and O(d) memory suffice, and no
client sends a number in the clear.

A client whose terms exceed the bounds of secure sums adds zeros instead, and a
separate sum counts such clients. Clipping the client's update instead would in
effect change the client's coefficient.

With noise (`tff_fair.privacy.differential`) the denominator is fixed:

  d = (sum_k clip(s_k Delta_k) + noise) / m

This requires equal client weights p_k, and a rule for which s_k = c_k / p_k
depends only on client k: then no client can change another client's term. The
server takes a step even if all clients are excluded, because a missing step
would reveal that.
"""

import collections
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.privacy import differential
from tff_fair.summing import client_scalars, client_sums, rule_application

_MOMENTS = ("weight", "scale", "first_moment", "second_moment")


def build_secure(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  bound: float | None = None,
  sum_factory: client_sums.Factory | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the process of a `RuleFactory` with secure sums.

  `bound` limits the entries of e_k Delta_k; `None` is 1024, or no bound with a
  `sum_factory`, which replaces TFF's secure sum.
  """
  rule = reader.rule
  assert isinstance(rule, types.SeparableRule)  # `RuleFactory` checks it.
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  transport = client_sums.Transport.from_options(sum_factory, bound)
  with tf.Graph().as_default():
    no_clients = reader.unordered_cohort(reader.empty())
    names = (*_MOMENTS, *rule.terms(no_clients))

  def terms(update: types.TensorStructure, weight: Any) -> client_sums.Terms:
    row = reader.read(update, weight)
    of_one = client_terms(rule, reader.unordered_cohort(row))
    factors = [of_one["scale"]]
    if rule.has_covariate():
      factors.append(of_one["first_moment"])
    own = tf.stack([of_one[name] for name in names])
    scaled = tuple(transport.scale(specs, update, f) for f in factors)
    within = transport.scalars_fit(own) & transport.updates_fit(scaled)
    sent = {**transport.scalar_terms(own), client_sums.UPDATE: scaled}
    return client_sums.with_counts(row, sent, within)

  def finish(
    state: types.TensorStructure, totals: Any
  ) -> rule_application.RoundOutput:
    own = transport.scalar_sums(totals)
    sums = dict(zip(names, tf.unstack(own), strict=True))
    moments = {name: sums.pop(name) for name in _MOMENTS}
    output = rule.from_sums(types.Sums(**moments, terms=sums))
    factors = [output.level]
    if output.slope is not None:
      factors.append(output.slope)
    return client_sums.end_round(state, totals, specs, output, factors)

  return client_sums.build_client_sums(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    terms=terms,
    factories=transport.factories,
    finish=finish,
  )


def client_terms(
  rule: types.SeparableRule, cohort: types.Cohort
) -> Mapping[str, tf.Tensor]:
  """Returns one client's terms for the sums of scalars, float64[] by name.

  They are the terms of the sums in `types.Sums`, including the rule's own
  terms. All are zero if the client is excluded.
  """
  reference = tf.constant(rule.log_reference(), tf.float64)
  e = tf.exp(rule.log_weight(cohort) - reference)
  covariate = rule.covariate(cohort)
  x = tf.zeros_like(e) if covariate is None else covariate
  of_one = {
    "weight": cohort.weight,
    "scale": e,
    "first_moment": e * x,
    "second_moment": e * tf.square(x),
    **rule.terms(cohort),
  }
  # A vector has one entry, or no entry if the client is excluded.
  return {name: tf.reduce_sum(value) for name, value in of_one.items()}


def build_private(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  settings: differential.DifferentialPrivacy,
  *,
  sum_factory: client_sums.Factory | None = None,
  securely: bool = False,
) -> tff.templates.AggregationProcess:
  """Builds the process of a `RuleFactory` with noise for privacy.

  All clients have the same weight. `sum_factory` adds what clients send; `None`
  is a plain sum, or TFF's secure sum if `securely`.
  """
  rule = reader.rule
  assert isinstance(rule, types.SeparableRule)  # `RuleFactory` checks it.

  def terms(update: types.TensorStructure, weight: Any) -> client_sums.Terms:
    row = reader.read(update, weight)
    factor = tf.exp(rule.log_weight(reader.unordered_cohort(row)))
    clipped = differential.scale_and_clip(
      update, tf.reduce_sum(factor), settings.clip
    )
    return client_sums.with_counts(row, {client_sums.UPDATE: clipped})

  def finish(
    state: types.TensorStructure, totals: Any
  ) -> rule_application.RoundOutput:
    direction = differential.noisy_mean(totals[client_sums.UPDATE], settings)
    reported = client_sums.common_measurements(
      totals[client_sums.COUNTS], direction
    )
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
  """Returns factories that sum counts, and updates with norms up to `clip`."""
  if securely and sum_factory is None:
    return {
      client_sums.COUNTS: client_sums.secure_count_factory(),
      client_sums.UPDATE: tff.aggregators.SecureSumFactory(float(clip)),
    }
  plain = sum_factory or tff.aggregators.SumFactory()
  return {client_sums.COUNTS: plain, client_sums.UPDATE: plain}
