"""Converts a computation over clients into one graph.

TFF's executors make a separate call for each client and for each addition. For
small models these calls take as long as the arithmetic. Here a TFF computation
becomes a single TensorFlow graph, with loops over the clients.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, sessions, tff_internals, threads, values
from tff_fair.runtime.one_graph import client_values, inlining, loops, steps


class WholeGraph:
  """A computation as one graph."""

  def __init__(
    self,
    message: admission.Message,
    columns: Sequence[client_values.Columns],
    clients_at_a_time: int,
  ) -> None:
    """Builds the graph."""
    plan = steps.read(message)
    steps.check_works_as_one_graph(plan)
    if any(column.has_texts for column in columns):
      steps.check_makes_no_data(plan)
    if admission.has_operation(message, admission.ONE_CALL_AT_A_TIME):
      clients_at_a_time = 1
    self._plan = plan
    self._columns = columns
    self._type = tff.types.deserialize_type(message.type)
    signature = [tf.TensorSpec([], tf.int32)]
    remaining = iter(columns)
    sizes: list[int] = []
    for step in plan.arguments:
      specs = (
        next(remaining).signature
        if step.at_clients
        else [*map(_spec, inlining.leaf_types(step.type_spec))]
      )
      signature += specs
      sizes.append(len(specs))

    # TensorFlow's own cancellation does not end loops of plain operations.
    with tf.init_scope(), tf.device("CPU:0"):
      self._is_cancelled = tf.Variable(False, trainable=False)

    def compute(num_clients: tf.Tensor, *given: tf.Tensor) -> list[tf.Tensor]:
      tensors = iter(given)
      arguments: list[Any] = []
      for step, size in zip(plan.arguments, sizes, strict=True):
        part = [next(tensors) for _ in range(size)]
        arguments.append(
          part if step.at_clients else inlining.unflatten(part, step.type_spec)
        )
      graph = loops.Graph(
        plan,
        arguments,
        columns,
        num_clients,
        self._is_cancelled,
        clients_at_a_time=clients_at_a_time,
      )
      return list(tf.nest.flatten(graph.result()))

    # Unlike `tf.function`, this adds no dependencies between operations.
    self._call = tf.compat.v1.wrap_function(compute, signature)
    self._options = sessions.graph_options()
    self._lock = threading.Lock()

  def __call__(
    self, arguments: Sequence[values.Value], num_clients: int
  ) -> values.Value:
    """Returns the result."""
    columns = iter(self._columns)
    given = [tf.constant(num_clients)]
    for step, value in zip(self._plan.arguments, arguments, strict=True):
      if step.at_clients:
        given += next(columns).to_tensors(value)
      else:
        types = inlining.leaf_types(step.type_spec)
        leaves = inlining.leaves(value, step.type_spec)
        given += [
          tf.convert_to_tensor(leaf, inlining.dtype_of(leaf_type))
          for leaf, leaf_type in zip(leaves, types, strict=True)
        ]
    with (
      self._lock,
      threads.on_cancel(lambda: self._is_cancelled.assign(True)),
      tff_internals.options_of_calls(self._options),
    ):
      self._is_cancelled.assign(False)
      threads.check_not_cancelled()
      results = self._call(*given)
    threads.check_not_cancelled()
    return inlining.unflatten(results, _members(self._type.result))


def _spec(leaf: tff.Type) -> tf.TensorSpec:
  if not isinstance(leaf, tff.TensorType):
    raise admission.NotAdmittedError("data at the server")
  return tf.TensorSpec(leaf.shape, inlining.dtype_of(leaf))


def _members(type_spec: tff.Type) -> tff.Type:
  """Returns a type without its placements."""
  if isinstance(type_spec, tff.FederatedType):
    return type_spec.member
  if isinstance(type_spec, tff.StructType):
    return tff.StructType([*map(_members, type_spec)])
  return type_spec


def try_build(
  comp: tff.Computation,
  arguments: Sequence[values.Value],
  read: Callable[[], admission.Message],
  clients_at_a_time: int,
) -> WholeGraph | None:
  """Returns a computation as one graph, if that works for these arguments."""
  types = [*placed_types(comp.type_signature.parameter)]
  clients = [
    (part.member, value)
    for part, value in zip(types, arguments, strict=True)
    if values.is_at_clients(part)
  ]
  if not clients:
    return None

  def build() -> WholeGraph | None:
    try:
      return WholeGraph(read(), columns, clients_at_a_time)
    except admission.NotAdmittedError as error:
      admission.log("a computation does not become one graph", error)
    # TensorFlow refuses graphs with errors of many classes.
    except Exception as error:
      warnings.warn(
        "One client is computed after the other, which takes longer: "
        f"{type(error).__name__}: {error}",
        RuntimeWarning,
        stacklevel=2,
      )
    return None

  for reading in (
    admission.ReadLimit.UNLIMITED,
    admission.ReadLimit.ONCE_PER_REBUILD,
  ):
    columns = [client_values.Columns(member, reading) for member, _ in clients]
    if all(
      column.takes(value)
      for column, (_, value) in zip(columns, clients, strict=True)
    ):
      name = f"one graph; {clients_at_a_time} at a time, {reading.name}"
      graph: WholeGraph | None = tff_internals.cached_on(comp, name, build)
      return graph
  return None


def placed_types(type_spec: tff.Type | None) -> Iterator[tff.Type]:
  """Yields the types of a parameter's parts, whether or not they are placed."""
  if isinstance(type_spec, tff.StructType):
    for part in type_spec:
      yield from placed_types(part)
  elif type_spec is not None:
    yield type_spec


def placed_values(
  value: values.Value, type_spec: tff.Type | None
) -> Iterator[Any]:
  """Yields the parts of an argument, in the order of `placed_types`."""
  if isinstance(type_spec, tff.StructType):
    for part, part_type in zip(value, type_spec, strict=True):
      yield from placed_values(part, part_type)
  elif type_spec is not None:
    yield value
