"""Collects the clients' values at the server in one mergeable aggregate.

One aggregate takes all values of a client, so the server cannot mix up values
of different clients, and several workers can share the clients.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import phases


def build(
  client_type: tff.Type,
  *,
  zero: Callable[[], Any],
  accumulate: Callable[[Any, Any], Any],
  merge: Callable[[Any, Any], Any],
  report: Callable[[Any], Any] | None = None,
) -> tff.Computation:
  """Builds an aggregate of clients' values from TensorFlow functions.

  Its type is ({client_type}@CLIENTS -> R@SERVER), where `report` returns R. If
  `accumulate` adds rows, the type of `zero`'s result must allow any number of
  rows, as the type of `stacking.no_rows` does. Since the runtime may cut the
  clients into parts, `merge` must agree with `accumulate`. If one argument of
  `merge` equals the result of `zero`, `merge` must return its other argument.
  """
  compute = tff.tensorflow.computation
  no_clients = compute(zero)
  accumulator_type = no_clients.type_signature.result
  add_client = compute(accumulate, (accumulator_type, client_type))

  def merge_parts(first: Any, second: Any) -> Any:
    return tf.nest.map_structure(
      lambda tensor: tf.identity(tensor, name=phases.WRITTEN_FOR_PARTS),
      merge(first, second),
    )

  add_accumulator = compute(merge_parts, (accumulator_type, accumulator_type))
  finish = compute(report or (lambda found: found), accumulator_type)

  @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
  def collect(clients: tff.Value) -> tff.Value:
    return tff.federated_aggregate(
      clients, no_clients(), add_client, add_accumulator, finish
    )

  return collect
