"""Runs each TensorFlow computation of TFF in a separate session.

As in TFF's executors, values enter and leave a session as arrays, and datasets
as graphs. Each call initializes the session's variables, and drops them at the
end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, supervision, threads, values
from tff_fair.runtime.one_graph import inlining


class Session:
  """A TensorFlow computation that can be called."""

  def __init__(self, message: admission.Message) -> None:
    """Takes the computation, as TFF serializes it."""
    self._message = message
    self._type = tff.types.deserialize_type(message.type)
    # Only one call at a time may use the session's variables.
    self._lock = threading.Lock()
    self._open()

  def _open(self) -> None:
    program = self._message.tensorflow
    graph_def = tf.compat.v1.GraphDef()
    program.graph_def.Unpack(graph_def)
    with tf.Graph().as_default() as graph:
      feeds, given = self._feeds(program)
      tf.graph_util.import_graph_def(graph_def, given, name="")
      fetches = [
        _fetched(graph.get_tensor_by_name(name), leaf, name in feeds)
        for name, leaf in zip(
          inlining.tensor_names(program.result),
          inlining.leaf_types(self._type.result),
          strict=True,
        )
      ]
      kept = [
        tensor
        for operation in graph.get_operations()
        if not operation.inputs and not operation.control_inputs
        for tensor in operation.outputs
        if tensor.dtype == tf.resource
      ]
      drop = [
        tf.raw_ops.DestroyResourceOp(resource=tensor, ignore_lookup_error=True)
        for tensor in kept
      ]
    self._session = tf.compat.v1.Session(graph=graph, config=graph_options())
    token = program.session_token_tensor_name
    # TensorFlow refuses to run an empty graph.
    self._call = (
      self._session.make_callable(
        fetches, [*feeds, *([token] if token else [])]
      )
      if fetches
      else lambda *_: []
    )
    self._token = [b""] if token else []
    initialize = program.initialize_op
    self._initialize = (
      self._session.make_callable(
        [graph.as_graph_element(initialize, allow_tensor=False)]
      )
      if initialize
      else None
    )
    self._drop = self._session.make_callable(drop) if drop else None

  def _feeds(self, program: Any) -> tuple[list[Any], dict[str, tf.Tensor]]:
    """Returns the feeds of the argument's leaves, and its datasets by name."""
    if self._type.parameter is None:
      return [], {}
    feeds: list[Any] = []
    given: dict[str, tf.Tensor] = {}
    types = inlining.leaf_types(self._type.parameter)
    for name, leaf in zip(
      inlining.tensor_names(program.parameter), types, strict=True
    ):
      if isinstance(leaf, tff.SequenceType):
        text = tf.compat.v1.placeholder(tf.string, [])
        given[name] = tf.raw_ops.DatasetFromGraph(graph_def=text)
        feeds.append(text)
      else:
        feeds.append(name)
    return feeds, given

  def __call__(self, *args: values.Value) -> values.Value:
    """Returns the result."""
    fed = [
      *(leaf for arg in args for leaf in self._fed(arg, self._type.parameter)),
      *self._token,
    ]
    if any(
      isinstance(leaf, tff.SequenceType)
      for leaf in inlining.leaf_types(self._type.parameter or ())
    ):
      supervision.count_client()
    with self._lock:
      threads.check_not_cancelled()
      try:
        if self._initialize is not None:
          self._initialize()
        results = self._call(*fed)
      finally:
        if self._drop is not None:
          self._drop()
    leaves = [
      values.SerializedData(found)
      if isinstance(leaf, tff.SequenceType)
      else found
      for found, leaf in zip(
        results, inlining.leaf_types(self._type.result), strict=True
      )
    ]
    return inlining.unflatten(leaves, self._type.result)

  def _fed(self, value: values.Value, type_spec: tff.Type) -> Iterator[Any]:
    if isinstance(type_spec, tff.StructType):
      for member, member_type in zip(value, type_spec, strict=True):
        yield from self._fed(member, member_type)
    elif isinstance(type_spec, tff.SequenceType):
      yield values.serialize(value)
    elif type_spec.dtype is np.str_:
      yield np.asarray(value, object)
    else:
      yield np.asarray(value)


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
