"""Builds aggregations that consist of one mergeable aggregate.

Stacked and streaming sums are such aggregations. A client's scalars and update
travel together, so that they cannot be matched with those of another client.
Several workers can share the clients.
"""

import collections
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import tensorflow_federated as tff

from tff_fair.runtime import mergeable_aggregate
from tff_fair.summing import rule_application
from tff_fair.types import TensorStructure

# A client's `update` and `weight`.
Client: TypeAlias = Mapping[str, TensorStructure]
Accumulator = TypeVar("Accumulator")
Prepared = TypeVar("Prepared")


def build_single_aggregate(
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  initial_state: Callable[[], TensorStructure],
  zero: Callable[[], Accumulator],
  prepare: Callable[[Client], Prepared] | None = None,
  accumulate: Callable[[Accumulator, Prepared], Accumulator],
  merge: Callable[[Accumulator, Accumulator], Accumulator],
  apply_rule: Callable[
    [TensorStructure, Accumulator], rule_application.RoundOutput
  ],
) -> tff.templates.AggregationProcess:
  """Builds an aggregation process from TensorFlow functions.

  `prepare` maps a client's `update` and `weight` to the value that `accumulate`
  adds; if it is `None`, `accumulate` gets `update` and `weight`. `prepare` runs
  for clients in parallel, `accumulate` for one client after the other.
  """
  client_type = tff.to_type(
    collections.OrderedDict(update=value_type, weight=weight_type)
  )
  compute = tff.tensorflow.computation
  get_state = compute(initial_state)
  accumulated_type = client_type
  if prepare is not None:
    prepare_client = compute(prepare, client_type)
    accumulated_type = prepare_client.type_signature.result
  collect = mergeable_aggregate.build(
    accumulated_type, zero=zero, accumulate=accumulate, merge=merge
  )
  finish = compute(
    apply_rule,
    (
      get_state.type_signature.result,
      collect.type_signature.result.member,
    ),
  )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_eval(get_state, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    clients = tff.federated_zip(
      collections.OrderedDict(update=update, weight=weight)
    )
    if prepare is not None:
      clients = tff.federated_map(prepare_client, clients)
    return tff.templates.MeasuredProcessOutput(
      *tff.federated_map(finish, (state, collect(clients)))
    )

  return tff.templates.AggregationProcess(initialize, next_fn)


# Maps one `tff.templates.MeasuredProcessOutput` to another, at the server.
Convert: TypeAlias = Callable[[Any], Any]


def with_converted_output(
  process: tff.templates.AggregationProcess,
  value_type: tff.Type,
  weight_type: tff.Type,
  convert: Convert,
) -> tff.templates.AggregationProcess:
  """Returns a process that applies `convert` to the outputs of `process`.

  `convert` must not change the state.
  """

  @tff.federated_computation(
    process.initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    return convert(process.next(state, update, weight))

  return tff.templates.AggregationProcess(process.initialize, next_fn)
