"""The stacked way to sum: the server collects all updates, then applies a rule.

  d = sum_k c_k Delta_k,  c = rule(signals, M)

Works for every rule, in one mergeable aggregate. Costs m * d memory at the
server, which sees each client's update.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.aggregators import rule_application, scalars, stacking
from tff_fair.kernels import gram as gram_lib


def build_stacked(
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

  @tff.tensorflow.computation
  def zero() -> Any:
    specs = tf.nest.flatten(tff.types.type_to_tf_tensor_specs(value_type))
    width = sum(spec.shape.num_elements() for spec in specs)
    dtype = max((spec.dtype for spec in specs), key=lambda d: d.size)
    return reader.empty(), stacking.empty_stack(width, dtype)

  accumulator_type = zero.type_signature.result
  client_type = tff.to_type(
    collections.OrderedDict(update=value_type, weight=weight_type)
  )

  @tff.tensorflow.computation(accumulator_type, client_type)
  def accumulate(accumulator: Any, client: Any) -> Any:
    rows, stack = accumulator
    row = reader.read(client["update"], client["weight"])
    stack = tf.cond(
      tf.equal(row.num_excluded, 0),
      lambda: stacking.push(stack, stacking.flatten_update(client["update"])),
      lambda: tf.nest.map_structure(tf.identity, stack),
    )
    return scalars.concat_rows(rows, row), stack

  @tff.tensorflow.computation(accumulator_type, accumulator_type)
  def merge(first: Any, second: Any) -> Any:
    return (
      scalars.concat_rows(first[0], second[0]),
      stacking.merge(first[1], second[1]),
    )

  @tff.tensorflow.computation(accumulator_type)
  def report(accumulator: Any) -> Any:
    return accumulator

  initialize_rule = tff.tensorflow.computation(rule.initialize)

  @tff.tensorflow.computation(
    initialize_rule.type_signature.result, accumulator_type
  )
  def apply_rule(state: Any, accumulator: Any) -> Any:
    rows, stack = accumulator
    matrix = stacking.rows(stack)
    gram = (
      gram_lib.gram_matrix([matrix])
      if rule.geometry is types.Geometry.GRAM
      else None
    )
    output = rule_application.apply_rule(reader, rows, state, gram)
    direction = gram_lib.combine_rows(output.coefficients, matrix)
    return rule_application.round_output(
      rows, output, stacking.unflatten_update(direction, value_type)
    )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_eval(initialize_rule, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    # One aggregate for scalars and updates: they cannot be matched wrongly.
    collected = tff.federated_aggregate(
      tff.federated_zip(collections.OrderedDict(update=update, weight=weight)),
      zero(),
      accumulate,
      merge,
      report,
    )
    return tff.templates.MeasuredProcessOutput(
      *tff.federated_map(apply_rule, (state, collected))
    )

  return tff.templates.AggregationProcess(initialize, next_fn)
