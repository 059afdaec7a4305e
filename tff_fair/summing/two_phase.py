"""Two-phase aggregation: scalars first, then one sum of scaled updates.

  c = rule(signals) at the server;  d = sum_k (c_k Delta_k), scaled by client k

The server sees the clients' scalars, but never a single update: an inner
aggregation factory computes the sum, possibly with secure aggregation or
differential privacy. This works for rules that need no Gram matrix, in O(d)
memory. The aggregation is not mergeable: its second aggregate depends on the
first.

The round can also run as two computations, each split among several workers:

  first:   c = rule(signals) at the server, from what clients know before they
           train
  second:  d = sum_k (c_k Delta_k) over the clients included after training

If all clients of the first phase are included in the second, the result is the
same as that of one computation. A client whose update is not finite is not part
of d, but it has affected the other clients' coefficients. So the second phase
returns the ids of such clients, and both phases run again without them.
"""

import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import stacking
from tff_fair.runtime import mergeable_aggregate
from tff_fair.summing import client_scalars, rule_application


def build_two_phase(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  sum_factory: tff.aggregators.UnweightedAggregationFactory,
) -> tff.templates.AggregationProcess:
  """Builds the process of a `RuleFactory` with two phases.

  `sum_factory` sums the scaled updates.
  """
  sum_process = sum_factory.create(value_type)
  computations = _build_computations(reader, value_type, weight_type)
  finish = tff.tensorflow.computation(
    lambda rows, output, total, inner: rule_application.with_inner_measurements(
      rule_application.round_output(reader, rows, output, total), inner
    ),
    (
      computations.collect.type_signature.result.member,
      computations.apply_rule.type_signature.result,
      value_type,
      sum_process.next.type_signature.result.measurements.member,
    ),
  )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        rule=tff.federated_eval(computations.initialize_rule, tff.SERVER),
        sum=sum_process.initialize(),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    # At the server, the rule sees only the scalars.
    row = tff.federated_map(computations.read, (update, weight))
    rows = computations.collect(row)
    output = tff.federated_map(computations.apply_rule, (state["rule"], rows))
    # Each client scales its own update, so the server sees only the sum.
    scaled = tff.federated_map(
      computations.scale,
      (
        update,
        row,
        tff.federated_broadcast(rows),
        tff.federated_broadcast(output.coefficients),
      ),
    )
    total = sum_process.next(state["sum"], scaled)
    rule_state, result, measurements = tff.federated_map(
      finish, (rows, output, total.result, total.measurements)
    )
    return _output(rule_state, total.state, result, measurements)

  return tff.templates.AggregationProcess(initialize, next_fn)


class _Computations(NamedTuple):
  """The TFF computations of a round, except the broadcasts and the sum."""

  # Returns the rule's state before the first round.
  initialize_rule: tff.Computation
  # Maps a client's update and weight to its row of scalars.
  read: tff.Computation
  # Maps the clients' rows to the cohort's rows at the server.
  collect: tff.Computation
  # Maps the rule's state and the cohort's rows to the rule's output.
  apply_rule: tff.Computation
  # Maps a client's update and row, and the cohort's rows and coefficients, to
  # the scaled update.
  scale: tff.Computation


def _build_computations(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
) -> _Computations:
  """Builds the computations of a round."""
  compute = tff.tensorflow.computation
  initialize_rule = compute(reader.rule.initialize)
  read = compute(reader.read, (value_type, weight_type))
  row_type = read.type_signature.result
  collect = mergeable_aggregate.build(
    row_type,
    zero=reader.empty,
    accumulate=client_scalars.concat_rows,
    merge=client_scalars.concat_rows,
  )
  rows_type = collect.type_signature.result.member
  apply_rule = compute(
    lambda state, rows: rule_application.apply_rule(reader, rows, state),
    (initialize_rule.type_signature.result, rows_type),
  )
  coefficients_type = apply_rule.type_signature.result.coefficients
  scale = compute(
    scale_update, (value_type, row_type, rows_type, coefficients_type)
  )
  return _Computations(initialize_rule, read, collect, apply_rule, scale)


def scale_update(
  update: types.TensorStructure,
  row: client_scalars.ScalarRows,
  rows: client_scalars.ScalarRows,
  coefficients: tf.Tensor,
) -> types.TensorStructure:
  """Returns a client's update times the client's coefficient.

  The coefficients, float64[clients], are in the order of `rows`. An excluded
  client has no `row`, and its update becomes zero, even if it is NaN.
  """

  def own_coefficient() -> tf.Tensor:
    # Equal rows have equal coefficients, so any match will do.
    matches = tf.logical_and(
      tf.equal(rows.client_id, row.client_id),
      tf.reduce_all(tf.equal(rows.columns, row.columns), axis=1),
    )
    return coefficients[tf.argmax(matches)]

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


# The type of the ids of clients that the second phase left out.
LEFT_OUT_TYPE = tff.FederatedType(tff.TensorType(np.int64, [None]), tff.SERVER)
# What the first phase chooses: `rows`, the cohort's rows, and `coefficients`,
# float64[clients], in the same order.
CohortCoefficients = collections.OrderedDict[str, Any]


class SumPhases(NamedTuple):
  """The two phases of a sum, as computations that workers can share."""

  # The first phase, of the type (<S@SERVER, W@CLIENTS> -> C@SERVER): maps the
  # state and the clients' signals to C, the `CohortCoefficients`.
  choose: tff.Computation
  # The second phase, of the type (<S@SERVER, V@CLIENTS, W@CLIENTS, C@SERVER> ->
  # <M, L>): maps state, updates, signals and C to M and L. M is the output of
  # the undivided process's `next`. L, of `LEFT_OUT_TYPE`, has the ids of the
  # clients that `choose` included but `add` excluded.
  add: tff.Computation
  # Of the type (<W, L> -> W): sets the number of examples in a client's signals
  # to 0 if the client's id is in L.
  leave_out: tff.Computation
  # Of the type (C -> ClientSignals): returns the cohort's signals, as vectors.
  signals: tff.Computation


def build_sum_phases(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  sum_factory: tff.aggregators.UnweightedAggregationFactory,
) -> SumPhases:
  """Builds the two phases of the process that `build_two_phase` builds.

  `reader` must read all scalars from the clients' signals, without the updates.
  """
  sum_process = sum_factory.create(value_type)
  sum_output = sum_process.next.type_signature.result
  computations = _build_computations(reader, value_type, weight_type)
  state_type = tff.FederatedType(
    collections.OrderedDict(
      rule=computations.initialize_rule.type_signature.result,
      sum=sum_output.state.member,
    ),
    tff.SERVER,
  )
  read_signals = tff.tensorflow.computation(
    lambda weight: reader.read((), weight), weight_type
  )

  @tff.federated_computation(
    state_type, tff.FederatedType(weight_type, tff.CLIENTS)
  )
  def choose(state: Any, weight: Any) -> Any:
    rows = computations.collect(tff.federated_map(read_signals, weight))
    output = tff.federated_map(computations.apply_rule, (state["rule"], rows))
    return tff.federated_zip(
      collections.OrderedDict(rows=rows, coefficients=output.coefficients)
    )

  chosen_type = choose.type_signature.result
  rows_type = chosen_type.member["rows"]
  finish = tff.tensorflow.computation(
    lambda state, rows, chosen, total, inner: finish_second_phase(
      reader, state, rows, chosen, total, inner
    ),
    (
      computations.initialize_rule.type_signature.result,
      rows_type,
      chosen_type.member,
      value_type,
      sum_output.measurements.member,
    ),
  )
  missing = tff.tensorflow.computation(missing_ids, (rows_type, rows_type))

  @tff.federated_computation(
    state_type,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
    chosen_type,
  )
  def add(state: Any, update: Any, weight: Any, chosen: Any) -> Any:
    row = tff.federated_map(computations.read, (update, weight))
    known = tff.federated_broadcast(chosen)
    scaled = tff.federated_map(
      computations.scale, (update, row, known["rows"], known["coefficients"])
    )
    total = sum_process.next(state["sum"], scaled)
    rows = computations.collect(row)
    rule_state, result, measurements = tff.federated_map(
      finish, (state["rule"], rows, chosen, total.result, total.measurements)
    )
    output = _output(rule_state, total.state, result, measurements)
    return output, tff.federated_map(missing, (chosen["rows"], rows))

  signals = tff.tensorflow.computation(
    lambda chosen: reader.signals(chosen["rows"]), chosen_type.member
  )
  leave_out = tff.tensorflow.computation(
    exclude_client, (weight_type, LEFT_OUT_TYPE.member)
  )
  return SumPhases(choose, add, leave_out, signals)


def _output(
  rule_state: Any, sum_state: Any, result: Any, measurements: Any
) -> tff.templates.MeasuredProcessOutput:
  """Returns the output of a round from values at the server."""
  state = collections.OrderedDict(rule=rule_state, sum=sum_state)
  return tff.templates.MeasuredProcessOutput(
    tff.federated_zip(state), result, measurements
  )


def finish_second_phase(
  reader: client_scalars.ScalarReader,
  state: types.TensorStructure,
  rows: client_scalars.ScalarRows,
  chosen: CohortCoefficients,
  direction: types.TensorStructure,
  inner: types.TensorStructure,
) -> rule_application.RoundOutput:
  """Returns the state, the result and the measurements of a round.

  `rows` holds the clients included after training, and `chosen` those included
  before training. `direction` is the sum of the scaled updates, and `inner` are
  the measurements of that sum.
  """
  output = rule_application.apply_rule(reader, rows, state)
  used = coefficients_of(rows.client_id, chosen)
  return rule_application.with_inner_measurements(
    rule_application.round_output(
      reader, rows, output._replace(coefficients=used), direction
    ),
    inner,
  )


def exclude_client(
  signals: types.ClientSignals, left_out: tf.Tensor
) -> types.ClientSignals:
  """Returns a client's signals, with 0 examples if its id is in `left_out`."""
  is_out = tf.reduce_any(tf.equal(left_out, signals.client_id))
  none = tf.zeros_like(signals.num_examples)
  return signals._replace(
    num_examples=tf.where(is_out, none, signals.num_examples)
  )


def missing_ids(
  chosen: client_scalars.ScalarRows, rows: client_scalars.ScalarRows
) -> tf.Tensor:
  """Returns the ids of clients in `chosen` but not in `rows`, int64[n]."""
  return tf.boolean_mask(
    chosen.client_id, stacking.are_missing(chosen.client_id, rows.client_id)
  )


def coefficients_of(
  client_id: tf.Tensor, chosen: CohortCoefficients
) -> tf.Tensor:
  """Returns the chosen coefficients, float64[n], of the clients `client_id`."""
  known = chosen["rows"].client_id
  order = tf.argsort(known, stable=True)
  places = tf.searchsorted(tf.gather(known, order), client_id)
  return tf.gather(chosen["coefficients"], tf.gather(order, places))
