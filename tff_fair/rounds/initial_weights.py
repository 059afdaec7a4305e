"""Sends the first round's weights along with the current ones.

Clients keep no state across rounds. With theta^0 beside theta they can relate
their loss to the one at the start, and the server needs no list of all clients.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


def build_with_initial_weights(
  weights_type: tff.Type,
) -> tff.learning.templates.DistributionProcess:
  """Builds a distributor that remembers the weights of its first round.

  Args:
    weights_type: The type of the weights, W.

  Returns:
    A process whose `next` has the type (<S@SERVER, W@SERVER> ->
    <state=S@SERVER, result=<current=W, initial=W>@CLIENTS, measurements=<>>).
    S holds theta^0, zeros before the first round, and whether it is known.
  """

  @tff.tensorflow.computation
  def initial_state() -> Any:
    return collections.OrderedDict(
      known=tf.constant(0, tf.int32),
      weights=tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype),
        tff.types.type_to_tf_tensor_specs(weights_type),
      ),
    )

  @tff.tensorflow.computation(initial_state.type_signature.result, weights_type)
  def remember(state: Any, weights: Any) -> Any:
    initial = tf.cond(
      state["known"] > 0, lambda: state["weights"], lambda: weights
    )
    return (
      collections.OrderedDict(known=tf.constant(1, tf.int32), weights=initial),
      collections.OrderedDict(current=weights, initial=initial),
    )

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    new_state, sent = tff.federated_map(remember, (state, weights))
    return tff.templates.MeasuredProcessOutput(
      new_state,
      tff.federated_broadcast(sent),
      tff.federated_value((), tff.SERVER),
    )

  return tff.learning.templates.DistributionProcess(initialize, next_fn)
