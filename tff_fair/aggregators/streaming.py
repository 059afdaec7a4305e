"""The streaming way to sum: updates are added as they arrive.

  c_k = exp(l_k) (u + v x_k),  hence  d = (u + v x_bar) T + v C

with the sums T and C of `moments`, and u and v known once all scalars are.
Works for `SeparableRule`s, in one mergeable aggregate of O(d) memory; only the
scalars of each client are kept.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.aggregators import (
  moments,
  rule_application,
  scalars,
  single_aggregate,
)


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
  has_covariate = type(rule).covariate is not types.SeparableRule.covariate

  def zero() -> Any:
    return reader.empty(), moments.of_none(specs, has_covariate)

  def of_client(row: scalars.ScalarRows, update: Any) -> moments.Moments:
    client = reader.unordered_cohort(row)
    covariate = rule.covariate(client)
    return moments.of_one(
      rule.log_weight(client)[0],
      None if covariate is None else covariate[0],
      update,
    )

  def accumulate(accumulator: Any, client: Any) -> Any:
    rows, seen = accumulator
    row = reader.read(client["update"], client["weight"])
    seen = tf.cond(
      tf.equal(row.num_excluded, 0),
      lambda: moments.merge(seen, of_client(row, client["update"])),
      lambda: tf.nest.map_structure(tf.identity, seen),
    )
    return scalars.concat_rows(rows, row), seen

  def merge(first: Any, second: Any) -> Any:
    return (
      scalars.concat_rows(first[0], second[0]),
      moments.merge(first[1], second[1]),
    )

  def apply_rule(state: Any, accumulator: Any) -> Any:
    rows, seen = accumulator
    output = rule_application.apply_rule(reader, rows, state)
    level = tf.math.divide_no_nan(
      tf.reduce_sum(output.coefficients), seen.weight
    )
    terms = [(level, seen.total)]
    if has_covariate:
      terms.append((_slope(rule, reader, rows, seen, output), seen.comoment))
    direction = tf.nest.map_structure(
      lambda spec, *layers: tf.cast(
        tf.add_n(
          [
            factor * tf.cast(layer, tf.float64)
            for (factor, _), layer in zip(terms, layers, strict=True)
          ]
        ),
        spec.dtype,
      ),
      specs,
      *[term for _, term in terms],
    )
    return rule_application.round_output(reader, rows, output, direction)

  return single_aggregate.build_single_aggregate(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    zero=zero,
    accumulate=accumulate,
    merge=merge,
    apply_rule=apply_rule,
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
  centred = rule.covariate(cohort) - seen.covariate
  return tf.math.divide_no_nan(
    tf.reduce_sum(output.coefficients * centred),
    tf.reduce_sum(weights * tf.square(centred)),
  )
