"""The streaming way to sum: updates are added as they arrive.

  c_k = exp(l_k) (u + v x_k),  hence  d = (u + v x_bar) T + v C

with the sums T and C of `moments`, and u and v known once all scalars are.
Works for `SeparableRule`s, in one mergeable aggregate of O(d) memory; only the
scalars of each client are kept.
"""

from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.summing import (
  moments,
  rule_application,
  scalars,
  single_aggregate,
)

# The scalars of some clients, and the moments of their updates.
Seen: TypeAlias = tuple[scalars.ScalarRows, moments.Moments]


def build_streaming(
  reader: scalars.ScalarReader, value_type: tff.Type, weight_type: tff.Type
) -> tff.templates.AggregationProcess:
  """Builds the process; see `tff_fair.aggregators.RuleFactory`.

  Args:
    reader: Reads the scalars the rule needs.
    value_type: The type of a client's update.
    weight_type: The type of its weight.

  Returns:
    A process whose result is a `RoundUpdate` of `value_type`.
  """
  rule = reader.rule
  if not isinstance(rule, types.SeparableRule):
    raise TypeError(
      f"The streaming aggregation needs a SeparableRule, found "
      f"{type(rule).__name__}. Choose another aggregation."
    )
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  has_covariate = rule.has_covariate()

  def zero() -> Seen:
    return reader.empty(), moments.of_none(specs, has_covariate)

  def accumulate(seen: Seen, client: single_aggregate.Client) -> Seen:
    row = reader.read(client["update"], client["weight"])
    of_all = tf.cond(
      tf.equal(row.num_excluded, 0),
      lambda: moments.merge(seen[1], _of_client(reader, rule, row, client)),
      lambda: tf.nest.map_structure(tf.identity, seen[1]),
    )
    return scalars.concat_rows(seen[0], row), of_all

  def apply_rule(
    state: types.TensorStructure, seen: Seen
  ) -> rule_application.Round:
    rows, of_all = seen
    output = rule_application.apply_rule(reader, rows, state)
    level = tf.math.divide_no_nan(
      tf.reduce_sum(output.coefficients), of_all.weight
    )
    terms = [(level, of_all.total)]
    if has_covariate:
      slope = _slope(rule, reader, rows, of_all, output)
      terms.append((slope, of_all.comoment))
    return rule_application.round_output(
      reader, rows, output, rule_application.weighted_sum(specs, terms)
    )

  return single_aggregate.build_single_aggregate(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    zero=zero,
    accumulate=accumulate,
    merge=_merge,
    apply_rule=apply_rule,
  )


def _of_client(
  reader: scalars.ScalarReader,
  rule: types.SeparableRule,
  row: scalars.ScalarRows,
  client: single_aggregate.Client,
) -> moments.Moments:
  """Returns the moments of one client that counts."""
  cohort = reader.unordered_cohort(row)
  covariate = rule.covariate(cohort)
  return moments.of_one(
    rule.log_weight(cohort)[0],
    None if covariate is None else covariate[0],
    client["update"],
  )


def _merge(first: Seen, second: Seen) -> Seen:
  return (
    scalars.concat_rows(first[0], second[0]),
    moments.merge(first[1], second[1]),
  )


def _slope(
  rule: types.SeparableRule,
  reader: scalars.ScalarReader,
  rows: scalars.ScalarRows,
  seen: moments.Moments,
  output: types.RuleOutput,
) -> tf.Tensor:
  """Returns v, from c_k = e_k (u + v x_k)."""
  cohort = reader.unordered_cohort(rows)
  weights = tf.exp(rule.log_weight(cohort) - seen.log_scale)
  covariate = rule.covariate(cohort)
  assert covariate is not None  # Only asked where there is one.
  centred = covariate - seen.covariate
  return tf.math.divide_no_nan(
    tf.reduce_sum(output.coefficients * centred),
    tf.reduce_sum(weights * tf.square(centred)),
  )
