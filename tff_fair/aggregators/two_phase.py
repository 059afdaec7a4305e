"""The two-phase way to sum: scalars first, then one sum of scaled updates.

  c = rule(signals) at the server;  d = sum_k (c_k Delta_k), scaled by client k

The server sees the clients' scalars, never an update of one of them: the sum is
an inner aggregation factory, where secure aggregation or differential privacy
plugs in. Works for rules that need no Gram matrix. O(d) memory. Not mergeable:
the second aggregate depends on the first.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.aggregators import rule_application, scalars


def build_two_phase(
  reader: scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  sum_factory: tff.aggregators.UnweightedAggregationFactory,
) -> tff.templates.AggregationProcess:
  """Builds the process; see `tff_fair.aggregators.RuleFactory`.

  Args:
    reader: Reads the scalars the rule needs.
    value_type: The type of a client's update.
    weight_type: The type of its weight.
    sum_factory: Sums the scaled updates.

  Returns:
    A process whose result is a `RoundUpdate` of `value_type`.
  """
  sum_process = sum_factory.create(value_type)
  initialize_rule = tff.tensorflow.computation(reader.rule.initialize)
  zero = tff.tensorflow.computation(reader.empty)
  rows_type = zero.type_signature.result

  @tff.tensorflow.computation(value_type, weight_type)
  def read(update: Any, weight: Any) -> Any:
    return reader.read(update, weight)

  @tff.tensorflow.computation(rows_type, read.type_signature.result)
  def accumulate(rows: Any, row: Any) -> Any:
    return scalars.concat_rows(rows, row)

  @tff.tensorflow.computation(rows_type, rows_type)
  def merge(first: Any, second: Any) -> Any:
    return scalars.concat_rows(first, second)

  @tff.tensorflow.computation(rows_type)
  def report(rows: Any) -> Any:
    return rows

  @tff.tensorflow.computation(initialize_rule.type_signature.result, rows_type)
  def apply_rule(state: Any, rows: Any) -> Any:
    return rule_application.apply_rule(reader, rows, state)

  rule_output_type = apply_rule.type_signature.result

  @tff.tensorflow.computation(
    value_type,
    read.type_signature.result,
    rows_type,
    rule_output_type.coefficients,
  )
  def scale(update: Any, row: Any, rows: Any, coefficients: Any) -> Any:
    def own_coefficient() -> tf.Tensor:
      # Equal rows have equal coefficients, so any match will do.
      matches = tf.logical_and(
        tf.equal(rows.client_id, row.client_id),
        tf.reduce_all(tf.equal(rows.columns, row.columns), axis=1),
      )
      return coefficients[tf.argmax(matches)]

    # The update of a client that was left out is replaced, NaN and all.
    counts = tf.equal(row.num_excluded, 0)
    coefficient = tf.cond(
      counts, own_coefficient, lambda: tf.zeros([], tf.float64)
    )
    return tf.nest.map_structure(
      lambda layer: tf.where(
        counts,
        tf.cast(coefficient * tf.cast(layer, tf.float64), layer.dtype),
        tf.zeros_like(layer),
      ),
      update,
    )

  sum_measurements_type = (
    sum_process.next.type_signature.result.measurements.member
  )

  @tff.tensorflow.computation(
    rows_type, rule_output_type, value_type, sum_measurements_type
  )
  def finish(
    rows: Any, output: Any, direction: Any, sum_measurements: Any
  ) -> Any:
    state, result, measurements = rule_application.round_output(
      reader, rows, output, direction
    )
    if tf.nest.flatten(sum_measurements):
      measurements["sum"] = sum_measurements
    return state, result, measurements

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        rule=tff.federated_eval(initialize_rule, tff.SERVER),
        sum=sum_process.initialize(),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    # Server: choose the coefficients from the scalars alone.
    row = tff.federated_map(read, (update, weight))
    rows = tff.federated_aggregate(row, zero(), accumulate, merge, report)
    output = tff.federated_map(apply_rule, (state["rule"], rows))
    # Clients: scale the own update.
    scaled = tff.federated_map(
      scale,
      (
        update,
        row,
        tff.federated_broadcast(rows),
        tff.federated_broadcast(output.coefficients),
      ),
    )
    # Server: the sum, and the report.
    total = sum_process.next(state["sum"], scaled)
    rule_state, result, measurements = tff.federated_map(
      finish, (rows, output, total.result, total.measurements)
    )
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict(rule=rule_state, sum=total.state)
      ),
      result,
      measurements,
    )

  return tff.templates.AggregationProcess(initialize, next_fn)
