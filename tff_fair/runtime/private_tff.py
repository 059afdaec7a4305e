"""The one room for everything that TensorFlow Federated keeps private.

A remote executor has no public name for the parts with which `sending` writes a
value into its message. TFF may rename or drop them in any version. So the
runtime looks for all of them when it starts. Where one is missing, it leaves
TFF's own executor and stub in place, which compute the same and take longer.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Hashable, Iterator
from typing import Any, TypeVar

import tensorflow as tf
import tensorflow_federated as tff

try:
  from tensorflow_federated.proto.v0 import executor_pb2
except ImportError:
  executor_pb2 = None
try:
  from tensorflow_federated.python.core.impl.executors import remote_executor
except ImportError:
  remote_executor = None
try:
  from tensorflow_federated.python.common_libs import tracing
except ImportError:
  tracing = None
try:
  from tensorflow_federated.python.core.environments.tensorflow_backend import (
    graph_optimizations,
  )
except ImportError:
  graph_optimizations = None

__all__ = [
  "check",
  "executor_pb2",
  "fetch",
  "kept_with",
  "new_request",
  "optimize_without_inputs",
  "pair",
  "remote_executor",
  "send",
  "streams_structs",
  "trace_for_listeners",
]

T = TypeVar("T")

# An attribute that the runtime gives to a computation.
_KEPT = "kept_by_tff_fair"
# Attributes that the runtime reads, calls or overrides.
_OF_EXECUTORS = (
  "_check_has_executor_id",
  "_compute",
  "_executor_id",
  "_stream_structs",
  "_stub",
  "close",
  "create_call",
  "create_selection",
  "create_struct",
  "create_value",
)
_OF_STUBS = ("create_struct", "create_value", "dispose")
_OF_TRACING = (
  "LoggingTracingProvider",
  "_global_tracing_providers",
  "set_tracing_providers",
)
_OF_MESSAGES = ("ComputeRequest", "CreateStructRequest", "CreateValueRequest")
# Fields of the message of a value, which `sending` fills.
_OF_VALUES = (
  "array.content",
  "array.dtype",
  "array.shape.dim",
  "federated.type",
  "federated.value",
  "sequence.element_type",
  "sequence.serialized_graph_def",
  "struct.element.name",
  "struct.element.value",
)


def check() -> bool:
  """Returns whether this TFF has all private names; warns if it has not."""
  missing = [*_missing_names()]
  if missing:
    warnings.warn(
      "Rounds are slower than they could be: this TensorFlow Federated has no "
      f"{', no '.join(missing)}. tff_fair was written for version 0.87.",
      RuntimeWarning,
      stacklevel=3,
    )
  return not missing


def _missing_names() -> Iterator[str]:
  # Without a connection: an executor sets some of its attributes itself.
  executor = tff.framework.RemoteExecutor(None)
  for place, owner, names in (
    ("module remote_executor", remote_executor, ("RemoteValue",)),
    ("RemoteExecutor", executor, _OF_EXECUTORS),
    ("RemoteExecutorGrpcStub", tff.framework.RemoteExecutorGrpcStub, _OF_STUBS),
    ("module tracing", tracing, _OF_TRACING),
    ("module executor_pb2", executor_pb2, _OF_MESSAGES),
  ):
    if owner is None:
      yield place
      continue
    for name in names:
      if not hasattr(owner, name):
        yield f"{place.removeprefix('module ')}.{name}"
  if executor_pb2 is not None:
    for path in _OF_VALUES:
      if not _has_field(executor_pb2.Value.DESCRIPTOR, path):
        yield f"executor_pb2.Value.{path}"


def _has_field(message: Any, path: str) -> bool:
  """Returns whether a type of messages has a field, given with dots."""
  for name in path.split("."):
    if message is None or name not in message.fields_by_name:
      return False
    message = message.fields_by_name[name].message_type
  return True


def kept_with(
  comp: tff.Computation, key: Hashable, build: Callable[[], T]
) -> T:
  """Returns what is built once for a computation, and lives as long as it.

  TFF hashes a computation by all of its content, so that a dictionary with
  computations as keys would be slow.

  Args:
    comp: The computation. What is built may refer to it.
    key: Names what is built.
    build: Builds it, at the first call with this key.
  """
  kept: dict[Hashable, T] = vars(comp).setdefault(_KEPT, {})
  if key not in kept:
    kept[key] = build()
  return kept[key]


def streams_structs(executor: tff.framework.RemoteExecutor) -> bool:
  """Returns whether an executor sends the parts of a structure one by one."""
  return executor._stream_structs


def new_request(
  executor: tff.framework.RemoteExecutor,
) -> executor_pb2.CreateValueRequest:
  """Returns the request to create a value, which is yet to be written.

  Raises:
    ValueError: If the executor has not been told the number of clients.
  """
  executor._check_has_executor_id()
  return executor_pb2.CreateValueRequest(executor=executor._executor_id)


def send(
  executor: tff.framework.RemoteExecutor,
  request: executor_pb2.CreateValueRequest,
  type_spec: tff.Type,
) -> remote_executor.RemoteValue:
  """Sends a request to the worker, and returns the value there."""
  reference = executor._stub.create_value(request).value_ref
  return remote_executor.RemoteValue(reference, type_spec, executor)


def fetch(
  executor: tff.framework.RemoteExecutor, reference: executor_pb2.ValueRef
) -> executor_pb2.Value:
  """Returns a value of the worker as the message in which it comes."""
  request = executor_pb2.ComputeRequest(
    executor=executor._executor_id, value_ref=reference
  )
  return executor._stub.compute(request).value


def pair(
  executor: tff.framework.RemoteExecutor,
  first: executor_pb2.ValueRef,
  first_type: tff.Type,
  second: remote_executor.RemoteValue,
) -> remote_executor.RemoteValue:
  """Returns a pair of two values in the worker, the first by its reference.

  An object for the first one would have the worker drop it when it goes.
  """
  element = executor_pb2.CreateStructRequest.Element
  request = executor_pb2.CreateStructRequest(
    executor=executor._executor_id,
    element=[element(value_ref=first), element(value_ref=second.reference)],
  )
  reference = executor._stub.create_struct(request).value_ref
  pair_type = tff.StructType([first_type, second.type_signature])
  return remote_executor.RemoteValue(reference, pair_type, executor)


def trace_for_listeners() -> None:
  """Has TFF write its log of calls only where absl keeps it.

  TFF makes two lines for each of some 200 calls a round, which absl drops
  unless its verbosity is that of debugging. They take 2 ms.
  """
  # A thread that has traced expects as many providers as there were.
  former = tracing._global_tracing_providers
  if [*map(type, former)] != [tracing.LoggingTracingProvider]:
    return  # The program has others, or this was done.
  listeners = logging.getLogger("absl")

  class Tracing(tracing.LoggingTracingProvider):
    def span(self, *args: Any) -> Generator[None, Any, None]:
      if listeners.isEnabledFor(logging.DEBUG):
        yield from super().span(*args)
      else:
        yield None

  tracing.set_tracing_providers([Tracing()])


class _WithoutInputs:
  """TensorFlow's optimizer of graphs, which makes up no large inputs."""

  def __init__(self, optimizer: Any) -> None:
    self._optimizer = optimizer

  def __getattr__(self, name: str) -> Any:
    return getattr(self._optimizer, name)

  def OptimizeGraph(self, config: Any, graph: Any, *args: Any) -> Any:  # noqa: N802
    used: set[str] = set()
    for signature in graph.signature_def.values():
      inputs, outputs = signature.inputs.values(), signature.outputs.values()
      used.update(_node_of(tensor.name) for tensor in (*inputs, *outputs))
      for tensor in inputs:
        tensor.tensor_shape.Clear()
    nodes = graph.graph_def.node
    for node in nodes:
      used.update(map(_node_of, node.input))
    for i in reversed(range(len(nodes))):
      # TFF may name one of a text, its session's token, elsewhere.
      if (
        nodes[i].op == "Placeholder"
        and nodes[i].name not in used
        and nodes[i].attr["dtype"].type != tf.string.as_datatype_enum
      ):
        del nodes[i]
    return self._optimizer.OptimizeGraph(config, graph, *args)


def _node_of(name: str) -> str:
  """Returns the node of an input or a tensor: X, of "X", "X:1" or "^X"."""
  return name.removeprefix("^").partition(":")[0]


def optimize_without_inputs() -> None:
  """Has TensorFlow's optimizer of graphs make up no large inputs.

  It fills a tensor for each input that the signature of a graph names, of which
  it uses the name alone, and for each placeholder that no node reads: TFF
  leaves those where it has put one graph into another. Stacked updates have 73
  inputs of a row each, and a graph with 1,003 such placeholders: for a model of
  4 MB, that took 3.4 GB of the program, and more than twice the time. The nodes
  of a graph tell its shapes, so the optimized graph is the same. Where TFF has
  renamed the module, it takes the memory again.
  """
  optimizer = getattr(graph_optimizations, "tf_optimizer", None)
  if hasattr(optimizer, "OptimizeGraph") and not isinstance(
    optimizer, _WithoutInputs
  ):
    graph_optimizations.tf_optimizer = _WithoutInputs(optimizer)
