"""Aggregation processes whose rounds return something else than others' do."""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow_federated as tff

# From and to `tff.templates.MeasuredProcessOutput`, at the server.
Convert: TypeAlias = Callable[[Any], Any]


def converted(
  process: tff.templates.AggregationProcess,
  value_type: tff.Type,
  weight_type: tff.Type,
  convert: Convert,
) -> tff.templates.AggregationProcess:
  """Returns a process that returns the outputs of another one, converted.

  Args:
    process: The other one.
    value_type: The type of a client's update.
    weight_type: The type of its weight.
    convert: From the output of a round to that of the new process. The state
      must stay as it is.
  """

  @tff.federated_computation(
    process.initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    return convert(process.next(state, update, weight))

  return tff.templates.AggregationProcess(process.initialize, next_fn)
