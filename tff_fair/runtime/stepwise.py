"""Computes step by step, each TensorFlow computation in a separate session.

A computation that TFF has compiled for native workers consists of intrinsics,
calls of TensorFlow computations, and expressions around them. This module runs
these in order, as TFF's executors do; calls at clients run once per client. The
module is for computations that cannot become one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, sessions, values
from tff_fair.runtime.one_graph import inlining


class UnsupportedError(Exception):
  """An expression or intrinsic that this module cannot compute."""


class ClientError(Exception):
  """An error of one client's computation."""

  def __init__(self, client: int, error: Exception) -> None:
    super().__init__(client, error)
    self.client = client
    self.error = error


class StepwiseComputation:
  """A computation that runs step by step."""

  def __init__(self, message: admission.Message) -> None:
    """Takes the computation as TFF compiles it for native workers."""
    self._message = message
    self._type = tff.types.deserialize_type(message.type)
    self._sessions: dict[bytes, sessions.Session] = {}

  def __call__(self, arg: values.Value, num_clients: int) -> values.Value:
    """Computes all steps for `arg` and `num_clients`; returns the result."""
    run = _Run(self._session, num_clients)
    function = inlining.evaluate_calls(self._message, run.value)
    parameter = self._type.parameter
    if parameter is not None:
      repeated = _map_all_equal(lambda v: [v] * num_clients, arg, parameter)
      result = function(repeated)
    else:
      result = function() if callable(function) else function
    return _map_all_equal(_first, result, self._type.result)

  def _session(self, message: admission.Message) -> sessions.Session:
    content = message.SerializeToString(deterministic=True)
    if content not in self._sessions:
      self._sessions[content] = sessions.Session(message)
    return self._sessions[content]


def _map_all_equal(
  function: Callable[[Any], Any], value: Any, type_spec: tff.Type
) -> Any:
  """Applies `function` to each part of a value that is equal at all clients."""
  if isinstance(type_spec, tff.StructType):
    return tuple(
      _map_all_equal(function, member, member_type)
      for member, member_type in zip(value, type_spec, strict=True)
    )
  is_shared = (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and type_spec.all_equal
  )
  return function(value) if is_shared else value


def _first(of_clients: Sequence[Any]) -> Any:
  if not of_clients:
    raise ValueError("The result is at the clients, but there are none.")
  return of_clients[0]


class _Run:
  """Evaluates graphs, literals and intrinsics in one run of a computation."""

  def __init__(
    self,
    session: Callable[[admission.Message], sessions.Session],
    num_clients: int,
  ) -> None:
    self._session = session
    self._num_clients = num_clients

  def value(self, message: admission.Message) -> Any:
    """Returns a literal's value; for other messages, a function."""
    match message.WhichOneof("computation"):
      case "tensorflow":
        return self._session(message)
      case "literal":
        value = np.asarray(tff.framework.Literal.from_proto(message).value)
        return value.astype(object) if value.dtype.kind == "S" else value
      case "intrinsic":
        return self._intrinsic(message)
      case kind:
        raise UnsupportedError(f"an expression of kind {kind}")

  def _intrinsic(self, message: admission.Message) -> Callable[[Any], Any]:
    uri = message.intrinsic.uri
    function = getattr(self, f"_{uri}", None)
    if function is None:
      raise UnsupportedError(f"the intrinsic {uri}")
    if uri == "federated_select" or uri.startswith("sequence_"):
      parameter_type = tff.types.deserialize_type(message.type).parameter
      return lambda arg: function(arg, parameter_type)
    return function

  def _map_clients(self, function: Any, clients: Sequence[Any]) -> list[Any]:
    return [
      _call_for_client(number, function, value)
      for number, value in enumerate(clients)
    ]

  def _federated_map(self, arg: Any) -> list[Any]:
    return self._map_clients(*arg)

  _federated_map_all_equal = _federated_map

  def _federated_apply(self, arg: Any) -> Any:
    function, value = arg
    return function(value)

  def _federated_broadcast(self, arg: Any) -> list[Any]:
    return [arg] * self._num_clients

  _federated_value_at_clients = _federated_broadcast

  def _federated_value_at_server(self, arg: Any) -> Any:
    return arg

  _federated_zip_at_server = _federated_value_at_server

  def _federated_eval_at_server(self, function: Any) -> Any:
    return function()

  def _federated_eval_at_clients(self, function: Any) -> list[Any]:
    return self._map_clients(lambda _: function(), [None] * self._num_clients)

  def _federated_zip_at_clients(self, arg: Any) -> list[Any]:
    """Returns a structure for each client, from a structure of lists."""
    if isinstance(arg, list):
      return arg
    members = [self._federated_zip_at_clients(member) for member in arg]
    return [
      tuple(member[number] for member in members)
      for number in range(self._num_clients)
    ]

  def _federated_aggregate(self, arg: Any) -> Any:
    clients, accumulator, accumulate, _, report = arg
    for number, value in enumerate(clients):
      accumulator = _call_for_client(number, accumulate, (accumulator, value))
    return report(accumulator)

  def _federated_select(self, arg: Any, parameter_type: tff.Type) -> list[Any]:
    clients, _, value, select = arg
    return self._map_clients(
      lambda keys: _data(
        [select((value, key)) for key in keys], parameter_type[3].result
      ),
      clients,
    )

  def _sequence_map(
    self, arg: Any, parameter_type: tff.Type
  ) -> values.SerializedData:
    function, data = arg
    elements = [
      function(element) for element in _elements(data, parameter_type[1])
    ]
    return _data(elements, parameter_type[0].result)

  def _sequence_reduce(self, arg: Any, parameter_type: tff.Type) -> Any:
    data, accumulator, accumulate = arg
    for element in _elements(data, parameter_type[0]):
      accumulator = accumulate((accumulator, element))
    return accumulator

  def _sequence_sum(self, data: Any, parameter_type: tff.Type) -> Any:
    types = inlining.leaf_types(parameter_type.element)
    total = [np.zeros(leaf.shape, leaf.dtype) for leaf in types]
    for element in _elements(data, parameter_type):
      leaves = tf.nest.flatten(element)
      total = [*map(np.add, total, leaves)]
    return inlining.unflatten(total, parameter_type.element)


def _call_for_client(
  number: int, function: Callable[[Any], Any], value: Any
) -> Any:
  try:
    return function(value)
  except UnsupportedError:
    raise
  except Exception as error:
    raise ClientError(number, error) from error


def _data(
  elements: Sequence[Any], type_spec: tff.Type
) -> values.SerializedData:
  """Returns a dataset of `elements`, which have the type `type_spec`."""
  returned = [values.to_structs(element, type_spec) for element in elements]
  return values.SerializedData(
    values.serialize_list(returned, tff.SequenceType(type_spec))
  )


def _elements(data: Any, type_spec: tff.SequenceType) -> list[Any]:
  elements = map(
    tff.tensorflow.transform_args, values.to_structs(data, type_spec)
  )
  return [values.ingest(element, type_spec.element) for element in elements]
