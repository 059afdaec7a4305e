"""A round in which the server gets nothing but sums over clients.

Each client makes its terms of several sums. An inner factory adds each of them,
and the server computes the result. No sum depends on another one, so that the
round compiles to TFF's `MapReduceForm`.
"""

import collections
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.privacy import unused_assertions
from tff_fair.summing import rule_application, scalars
from tff_fair.types import TensorStructure

Factory: TypeAlias = tff.aggregators.UnweightedAggregationFactory
Terms: TypeAlias = Mapping[str, Any]

# The names of sums that every round has.
COUNTS, UPDATE = "counts", "update"


class Counts(NamedTuple):
  """What became of a client: one of these is 1. Or the sums of these.

  Attributes:
    counted: float32[], it counts.
    excluded: float32[], it has no examples, or an update or signals that are
      not finite or mean nothing.
    out_of_bounds: float32[], its terms pass the bounds.
  """

  counted: tf.Tensor
  excluded: tf.Tensor
  out_of_bounds: tf.Tensor


def counted(
  row: scalars.ScalarRows, sent: Terms, within_bounds: tf.Tensor | bool = True
) -> Terms:
  """Returns what a client adds, and as `counts` what became of it.

  Args:
    row: Its scalars; none, if it does not count.
    sent: Its terms, which may then be anything. They become zeros.
    within_bounds: bool[], whether the terms are within the bounds.
  """
  reports = tf.equal(row.num_excluded, 0)
  counts = reports & within_bounds
  return collections.OrderedDict(
    counts=Counts(
      tf.cast(counts, tf.float32),
      tf.cast(~reports, tf.float32),
      tf.cast(reports & ~counts, tf.float32),
    ),
    **tf.nest.map_structure(
      lambda x: tf.where(counts, x, tf.zeros_like(x)), sent
    ),
  )


def secure_counts() -> Factory:
  """Returns what adds counts securely.

  The ends of its interval are exact, so that numbers of clients are.
  """
  return tff.aggregators.SecureSumFactory(1.0, 0.0)


def reported(
  counts: Counts,
) -> collections.OrderedDict[str, TensorStructure]:
  """Returns sums of counts as measurements."""
  numbers = [tf.cast(tf.round(count), tf.int32) for count in counts]
  return collections.OrderedDict(
    num_clients=numbers[0],
    num_clients_excluded=numbers[1],
    num_clients_out_of_bounds=numbers[2],
  )


def build_client_sums(
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  initial_state: Callable[[], TensorStructure],
  terms: Callable[[TensorStructure, Any], Terms],
  factories: Mapping[str, Factory],
  finish: Callable[[TensorStructure, Terms], rule_application.Round],
) -> tff.templates.AggregationProcess:
  """Builds an aggregation process from TensorFlow functions.

  Args:
    value_type: The type of a client's update.
    weight_type: The type of its weight.
    initial_state: Returns the rule's state before the first round.
    terms: From a client's update and weight to its terms, by name.
    factories: What adds each of them, by the same names.
    finish: From the rule's state and the sums to state, result and
      measurements.

  Returns:
    A process with the measurements of `finish`, and as `sum` those of the sum
    of the updates, if any.
  """
  unused_assertions.keep_out_of_log()
  compute = tff.tensorflow.computation
  get_state = compute(initial_state)
  make_terms = compute(terms, (value_type, weight_type))
  terms_type = make_terms.type_signature.result
  sums = {
    name: factories[name].create(terms_type[name])
    for name in tff.structure.name_list(terms_type)
  }
  finish_round = compute(
    lambda state, totals, inner: _with_inner(finish(state, totals), inner),
    (
      get_state.type_signature.result,
      terms_type,
      sums[UPDATE].next.type_signature.result.measurements.member,
    ),
  )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        rule=tff.federated_eval(get_state, tff.SERVER),
        sums=collections.OrderedDict(
          (name, process.initialize()) for name, process in sums.items()
        ),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    of_clients = tff.federated_map(make_terms, (update, weight))
    outputs = {
      name: process.next(state["sums"][name], of_clients[name])
      for name, process in sums.items()
    }
    rule_state, result, measurements = tff.federated_map(
      finish_round,
      (
        state["rule"],
        tff.federated_zip(
          collections.OrderedDict((n, o.result) for n, o in outputs.items())
        ),
        outputs[UPDATE].measurements,
      ),
    )
    new_state = collections.OrderedDict(
      rule=rule_state,
      sums=collections.OrderedDict((n, o.state) for n, o in outputs.items()),
    )
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(new_state), result, measurements
    )

  return tff.templates.AggregationProcess(initialize, next_fn)


def _with_inner(
  output: rule_application.Round, inner: TensorStructure
) -> rule_application.Round:
  """Returns a round that reports what the sum of the updates does."""
  state, result, measurements = output
  if tf.nest.flatten(inner):
    measurements["sum"] = inner
  return state, result, measurements
