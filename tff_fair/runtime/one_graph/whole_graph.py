"""Converts a computation over clients into one graph.

TFF's executors make a separate call for each client and for each addition. For
small models, these calls take as long as the arithmetic. This module turns a
TFF computation into a single TensorFlow graph, with loops over the clients.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, sessions, tff_internals, threads, values
from tff_fair.runtime.one_graph import client_values, inlining, loops, steps


class WholeGraph:
  """A TFF computation as one TensorFlow graph that computes all clients."""

  def __init__(
    self,
    message: admission.Message,
    columns: Sequence[client_values.Columns],
    clients_at_a_time: int,
  ) -> None:
    """Builds the graph of `message`; `columns` are the clients' inputs to it.

    Raises `NotAdmittedError` if the result could differ from TFF's.
    """
    plan = steps.read(message)
    steps.check_works_as_one_graph(plan)
    if any(spec.dtype == tf.string for c in columns for spec in c.signature):
      steps.check_makes_no_data(plan)
    if admission.has_operation(message, admission.ONE_CALL_AT_A_TIME):
      clients_at_a_time = 1
    remaining = iter(columns)
    self._inputs: Sequence[client_values.Input] = [
      next(remaining)
      if step.at_clients
      else client_values.ServerValue(step.type_spec)
      for step in plan.arguments
    ]
    self._type = tff.types.deserialize_type(message.type)

    # The graph's loops read this flag, since TensorFlow does not cancel them.
    with tf.init_scope(), tf.device("CPU:0"):
      self._is_cancelled = tf.Variable(False, trainable=False)

    def compute(num_clients: tf.Tensor, *given: tf.Tensor) -> list[tf.Tensor]:
      tensors = iter(given)
      builder = loops.GraphBuilder(
        plan,
        [
          each.read([*itertools.islice(tensors, len(each.signature))])
          for each in self._inputs
        ],
        num_clients,
        self._is_cancelled,
        clients_at_a_time=clients_at_a_time,
      )
      return list(tf.nest.flatten(builder.result()))

    specs = [spec for each in self._inputs for spec in each.signature]
    # Unlike `tf.function`, this adds no dependencies between operations.
    self._call = tf.compat.v1.wrap_function(
      compute, [tf.TensorSpec([], tf.int32), *specs]
    )
    self._options = sessions.graph_options()
    self._lock = threading.Lock()

  def __call__(
    self, arguments: Sequence[values.Value], num_clients: int
  ) -> values.Value:
    """Runs the graph for the placed `arguments`; returns the result."""
    given = [tf.constant(num_clients)]
    for each, value in zip(self._inputs, arguments, strict=True):
      given += each.to_tensors(value)
    with (
      self._lock,
      threads.on_cancel(lambda: self._is_cancelled.assign(True)),
      tff_internals.options_of_calls(self._options),
    ):
      self._is_cancelled.assign(False)
      threads.check_not_cancelled()
      results = self._call(*given)
    threads.check_not_cancelled()
    return inlining.unflatten(results, self._type.result)


def try_build(
  comp: tff.Computation,
  parts: Sequence[tuple[values.Value, tff.Type]],
  read: Callable[[], admission.Message],
  clients_at_a_time: int,
) -> WholeGraph | None:
  """Returns `comp` as one graph, or None if that is not possible.

  `parts` has the value and the type of each argument; `read` compiles `comp`.
  """
  clients = [
    (type_spec.member, value)
    for value, type_spec in parts
    if values.is_at_clients(type_spec)
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

  for required_limit in (
    admission.ReadLimit.UNLIMITED,
    admission.ReadLimit.ONCE_PER_REBUILD,
  ):
    columns = [
      client_values.Columns(member, required_limit) for member, _ in clients
    ]
    if all(
      column.may_read(value)
      for column, (_, value) in zip(columns, clients, strict=True)
    ):
      name = f"one graph; {clients_at_a_time} at a time, {required_limit.name}"
      graph: WholeGraph | None = tff_internals.cached_on(comp, name, build)
      return graph
  return None
