"""The two-phase way to sum, as two computations that workers can share.

  first:   c = rule(signals) at the server, from what clients know before they
           train
  second:  d = sum_k (c_k Delta_k) over the clients that count after training

Where all clients of the first phase count in the end, the round is that of
`two_phase`. A client that does not, because its update is not finite, takes no
part in d. But the others have coefficients that were chosen with it. So the
second phase names such clients, and both phases run once more without them.
"""

import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.summing import rule_application, scalars, two_phase

# The ids of some clients, at the server.
LEFT_OUT = tff.FederatedType(tff.TensorType(np.int64, [None]), tff.SERVER)
# `rows`, the rows of the cohort; `coefficients`, float64[m], in their order.
Chosen = collections.OrderedDict[str, Any]


class SumPhases(NamedTuple):
  """The two phases of a sum.

  Attributes:
    choose: A computation of the type (<S@SERVER, W@CLIENTS> -> C@SERVER): from
      the state, and the signals of clients, to their coefficients.
    add: Of the type (<S@SERVER, V@CLIENTS, W@CLIENTS, C@SERVER> -> <M, L>):
      from the same and the updates to the same as `next` of the whole process,
      and the ids of the clients that do not count any more, `LEFT_OUT`.
    leave_out: Of the type (<W, L> -> W): a client's signals, with which it does
      not count if its id is among some.
    signals: Of the type (C -> ClientSignals): the cohort's signals, vectors.
  """

  choose: tff.Computation
  add: tff.Computation
  leave_out: tff.Computation
  signals: tff.Computation


def build_sum_phases(
  reader: scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  sum_factory: tff.aggregators.UnweightedAggregationFactory,
) -> SumPhases:
  """Builds the phases of `two_phase.build_two_phase`.

  Args:
    reader: Reads the scalars of `ClientSignals`, and does not look at updates.
    value_type: The type of a client's update.
    weight_type: The type of its signals.
    sum_factory: Sums the scaled updates.
  """
  sum_process = sum_factory.create(value_type)
  sum_output = sum_process.next.type_signature.result
  local = two_phase.build_local_computations(
    reader, value_type, weight_type, sum_output.measurements.member
  )
  state_type = tff.FederatedType(
    collections.OrderedDict(
      rule=local.initialize_rule.type_signature.result,
      sum=sum_output.state.member,
    ),
    tff.SERVER,
  )
  choose = _build_choose(reader, local, state_type, weight_type)
  chosen_type = choose.type_signature.result
  finish = tff.tensorflow.computation(
    lambda state, rows, chosen, total, measurements: finish_round(
      reader, state, rows, chosen, total, measurements
    ),
    (
      local.initialize_rule.type_signature.result,
      chosen_type.member["rows"],
      chosen_type.member,
      value_type,
      sum_output.measurements.member,
    ),
  )

  rows_type = chosen_type.member["rows"]
  missing = tff.tensorflow.computation(ids_missing, (rows_type, rows_type))

  @tff.federated_computation(
    state_type,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
    chosen_type,
  )
  def add(state: Any, update: Any, weight: Any, chosen: Any) -> Any:
    row = tff.federated_map(local.read, (update, weight))
    known = tff.federated_broadcast(chosen)
    scaled = tff.federated_map(
      local.scale, (update, row, known["rows"], known["coefficients"])
    )
    total = sum_process.next(state["sum"], scaled)
    rows = local.collect(row)
    rule_state, result, measurements = tff.federated_map(
      finish, (state["rule"], rows, chosen, total.result, total.measurements)
    )
    output = tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict(rule=rule_state, sum=total.state)
      ),
      result,
      measurements,
    )
    return output, tff.federated_map(missing, (chosen["rows"], rows))

  signals = tff.tensorflow.computation(
    lambda chosen: reader.signals(chosen["rows"]), chosen_type.member
  )
  leave_out = tff.tensorflow.computation(
    without, (weight_type, LEFT_OUT.member)
  )
  return SumPhases(choose, add, leave_out, signals)


def _build_choose(
  reader: scalars.ScalarReader,
  local: two_phase.LocalComputations,
  state_type: tff.FederatedType,
  weight_type: tff.Type,
) -> tff.Computation:
  """Builds the first phase; see `SumPhases`."""
  read_signals = tff.tensorflow.computation(
    lambda weight: reader.read((), weight), weight_type
  )

  @tff.federated_computation(
    state_type, tff.FederatedType(weight_type, tff.CLIENTS)
  )
  def choose(state: Any, weight: Any) -> Any:
    rows = local.collect(tff.federated_map(read_signals, weight))
    output = tff.federated_map(local.apply_rule, (state["rule"], rows))
    return tff.federated_zip(
      collections.OrderedDict(rows=rows, coefficients=output.coefficients)
    )

  return choose


def finish_round(
  reader: scalars.ScalarReader,
  state: types.TensorStructure,
  rows: scalars.ScalarRows,
  chosen: Chosen,
  direction: types.TensorStructure,
  sum_measurements: types.TensorStructure,
) -> rule_application.Round:
  """Returns state, result and measurements of a round.

  Args:
    reader: Knows the rule.
    state: The rule's state before the round.
    rows: The rows of the clients that count in the end.
    chosen: Rows and coefficients of those that counted before they trained.
    direction: d, the sum of the scaled updates.
    sum_measurements: Those of the inner sum.
  """
  output = rule_application.apply_rule(reader, rows, state)
  used = coefficients_of(rows.client_id, chosen)
  return two_phase.finish_round(
    reader,
    rows,
    output._replace(coefficients=used),
    direction,
    sum_measurements,
  )


def without(
  signals: types.ClientSignals, left_out: tf.Tensor
) -> types.ClientSignals:
  """Returns a client's signals, with no examples if it is left out.

  Args:
    signals: Scalars.
    left_out: int64[n], ids of clients.
  """
  is_out = tf.reduce_any(tf.equal(left_out, signals.client_id))
  none = tf.zeros_like(signals.num_examples)
  return signals._replace(
    num_examples=tf.where(is_out, none, signals.num_examples)
  )


def ids_missing(
  chosen: scalars.ScalarRows, rows: scalars.ScalarRows
) -> tf.Tensor:
  """Returns the clients that have a row in `chosen` alone, int64[n]."""
  found = tf.equal(chosen.client_id[:, None], rows.client_id[None, :])
  return tf.boolean_mask(
    chosen.client_id, tf.logical_not(tf.reduce_any(found, axis=1))
  )


def coefficients_of(client_id: tf.Tensor, chosen: Chosen) -> tf.Tensor:
  """Returns the coefficients of some clients.

  Args:
    client_id: int64[n], clients of the cohort.
    chosen: Rows and coefficients of the cohort.

  Returns:
    float64[n], in the order of `client_id`.
  """
  known = chosen["rows"].client_id
  order = tf.argsort(known, stable=True)
  places = tf.searchsorted(tf.gather(known, order), client_id)
  return tf.gather(chosen["coefficients"], tf.gather(order, places))
