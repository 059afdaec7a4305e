"""Runs each TensorFlow computation of TFF in a separate session.

As in TFF's executors, values enter and leave a session as arrays, and datasets
as serialized graphs. Each call initializes the session's variables, and deletes
them at the end.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, supervision, threads, values
from tff_fair.runtime.one_graph import inlining


class Session:
  """A TensorFlow computation of TFF, callable in its own session."""

  def __init__(self, message: admission.Message) -> None:
    """Takes the computation, as TFF serializes it."""
    program = message.tensorflow
    self._type = tff.types.deserialize_type(message.type)
    self._parameter_leaves = inlining.leaf_types(self._type.parameter)
    self._result_leaves = inlining.leaf_types(self._type.result)
    # Only one call at a time may use the session's variables.
    self._lock = threading.Lock()
    graph_def = tf.compat.v1.GraphDef()
    program.graph_def.Unpack(graph_def)
    with tf.Graph().as_default() as graph:
      feeds: list[Any] = inlining.tensor_names(program.parameter)
      datasets: dict[str, tf.Tensor] = {}
      for place, leaf in enumerate(self._parameter_leaves):
        if isinstance(leaf, tff.SequenceType):
          text = tf.compat.v1.placeholder(tf.string, [])
          datasets[feeds[place]] = tf.raw_ops.DatasetFromGraph(graph_def=text)
          feeds[place] = text
      tf.graph_util.import_graph_def(graph_def, datasets, name="")
      fetches = [
        _fetched(graph.get_tensor_by_name(name), leaf, name in feeds)
        for name, leaf in zip(
          inlining.tensor_names(program.result),
          self._result_leaves,
          strict=True,
        )
      ]
      drop = [
        tf.raw_ops.DestroyResourceOp(resource=tensor, ignore_lookup_error=True)
        for operation in graph.get_operations()
        if not operation.inputs and not operation.control_inputs
        for tensor in operation.outputs
        if tensor.dtype == tf.resource
      ]
    token = program.session_token_tensor_name
    self._token = [b""] if token else []
    feeds += [token] if token else []
    session = tf.compat.v1.Session(graph=graph, config=graph_options())
    # TensorFlow refuses to run an empty graph.
    self._call = session.make_callable(fetches, feeds) if fetches else _nothing
    self._drop = session.make_callable(drop) if drop else _nothing
    self._initialize = _nothing
    if program.initialize_op:
      operation = graph.get_operation_by_name(program.initialize_op)
      self._initialize = session.make_callable([operation])

  def __call__(self, *args: values.Value) -> values.Value:
    """Calls the computation with its argument, if any; returns the result."""
    fed: list[Any] = []
    for arg in args:
      leaves = inlining.leaves(arg, self._type.parameter)
      fed = [*map(_fed, leaves, self._parameter_leaves)]
    if any(isinstance(t, tff.SequenceType) for t in self._parameter_leaves):
      supervision.count_client()
    with self._lock:
      threads.check_not_cancelled()
      try:
        self._initialize()
        results = self._call(*fed, *self._token)
      finally:
        self._drop()
    found = [
      values.SerializedData(result)
      if isinstance(leaf, tff.SequenceType)
      else result
      for result, leaf in zip(results, self._result_leaves, strict=True)
    ]
    return inlining.unflatten(found, self._type.result)


def _nothing(*_: Any) -> list[Any]:
  return []


def _fed(value: values.Value, leaf: tff.Type) -> Any:
  if isinstance(leaf, tff.SequenceType):
    return values.serialize(value)
  return np.asarray(value, object if leaf.dtype is np.str_ else None)


def _fetched(tensor: tf.Tensor, leaf: tff.Type, is_fed: bool) -> tf.Tensor:
  if isinstance(leaf, tff.SequenceType):
    return tf.raw_ops.DatasetToGraphV2(input_dataset=tensor)
  # TensorFlow cannot fetch a tensor that is fed.
  return tf.identity(tensor) if is_fed else tensor


def graph_options() -> tf.compat.v1.ConfigProto:
  """Returns session options that keep TensorFlow from optimizing graphs.

  TFF's compiler has already optimized each computation. A second pass takes
  time, and TensorFlow's optimizer then breaks some loops within branches: their
  nodes "have inputs from different frames".
  """
  config = tf.compat.v1.ConfigProto(
    allow_soft_placement=True,
    intra_op_parallelism_threads=threads.threads_per_operation(),
  )
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  optimizer = config.graph_options.optimizer_options
  optimizer.opt_level = tf.compat.v1.OptimizerOptions.L0
  optimizer.global_jit_level = tf.compat.v1.OptimizerOptions.OFF
  return config
