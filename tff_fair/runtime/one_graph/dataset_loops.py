"""Rewrites `Dataset.reduce` as a loop over the dataset's elements.

TensorFlow optimizes the function of a `ReduceDataset` again in each call, which
takes longer than training a client. In a loop, the function is optimized only
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

REDUCE = "ReduceDataset"
_CALL = "StatefulPartitionedCall"


def with_loops(graph_def: Any) -> Any:
  """Returns a graph whose dataset reductions are replaced by loops."""
  changed = type(graph_def)()
  changed.CopyFrom(graph_def)
  _call_loops(changed, changed.node, graph_def.library)
  for function in changed.library.function:
    names = _call_loops(changed, function.node_def, graph_def.library)
    for node in function.node_def:
      node.input[:] = [_output(name, names) for name in node.input]
    for key, name in function.ret.items():
      function.ret[key] = _output(name, names)
  return changed


def _call_loops(graph_def: Any, nodes: Any, library: Any) -> set[str]:
  """Turns reductions in `nodes` into calls of loops; returns their names."""
  found = {node.name for node in nodes if node.op == REDUCE}
  for node in nodes:
    if node.name in found:
      loop, functions = _loop(node, library)
      known = {function.signature.name for function in library.function}
      graph_def.library.function.extend(
        function
        for function in functions
        if function.signature.name not in known
      )
      _call(node, loop)
  return found


def _call(node: Any, function: str) -> None:
  """Turns a reduction node into a call of the loop named `function`."""
  state = [*node.attr["Tstate"].list.type]
  arguments = [*node.attr["Targuments"].list.type]
  node.op = _CALL
  node.attr.clear()
  variant = tf.variant.as_datatype_enum
  node.attr["Tin"].list.type.extend([variant, *state, *arguments])
  node.attr["Tout"].list.type.extend(state)
  node.attr["f"].func.name = function


def _output(name: str, calls: set[str]) -> str:
  """Returns a tensor's new name: OP:output:INDEX if OP is in `calls`."""
  node, *rest = name.split(":")
  return ":".join([node, "output", *rest[1:]]) if node in calls else name


def _loop(node: Any, library: Any) -> tuple[str, Sequence[Any]]:
  """Builds a reduction's loop; returns its name, and the functions in it."""
  function = node.attr["f"].func
  state = [
    tf.TensorSpec(shape, dtype)
    for shape, dtype in zip(
      node.attr["output_shapes"].list.shape,
      node.attr["Tstate"].list.type,
      strict=True,
    )
  ]
  others = [tf.TensorSpec(None, t) for t in node.attr["Targuments"].list.type]
  element = [
    tf.as_dtype(arg.type)
    for called in library.function
    if called.signature.name == function.name
    for arg in called.signature.input_arg
  ][len(state) : -len(others) or None]
  elements = {
    "output_types": element,
    "output_shapes": [tf.TensorShape(None)] * len(element),
  }

  def reduce(data: tf.Tensor, *given: tf.Tensor) -> list[tf.Tensor]:
    tf.graph_util.import_graph_def(
      tf.compat.v1.GraphDef(library=library), name=""
    )
    iterator = tf.raw_ops.AnonymousIteratorV3(**elements)
    begin = tf.raw_ops.MakeIterator(dataset=data, iterator=iterator)

    def next_after(operation: tf.Operation) -> tf.Tensor:
      with tf.control_dependencies([operation]):
        return tf.raw_ops.IteratorGetNextAsOptional(
          iterator=iterator, **elements
        )

    def step(optional: tf.Tensor, *accumulated: tf.Tensor) -> Iterator[Any]:
      values = tf.raw_ops.OptionalGetValue(optional=optional, **elements)
      results = tf.raw_ops.StatefulPartitionedCall(
        args=[*accumulated, *values, *given[len(state) :]],
        Tout=[spec.dtype for spec in state],
        f=function,
      )
      call = results[0].op
      yield next_after(call)
      # Waits for the function's assignments to variables, too.
      with tf.control_dependencies([call]):
        for result, spec in zip(results, state, strict=True):
          total = tf.identity(result)
          total.set_shape(spec.shape)
          yield total

    _, *total = tf.while_loop(
      lambda optional, *_: tf.raw_ops.OptionalHasValue(optional=optional),
      lambda *values: (*step(*values),),
      (next_after(begin), *given[: len(state)]),
      shape_invariants=(tf.TensorShape([]), *(spec.shape for spec in state)),
      parallel_iterations=1,
    )
    return total

  with tf.init_scope():
    signature = [tf.TensorSpec([], tf.variant), *state, *others]
    # Tracing adds control outputs for the function's side effects.
    traced = tf.function(reduce, autograph=False).get_concrete_function(
      *signature
    )
  definition = traced.function_def
  nested = traced.graph.as_graph_def().library.function
  return definition.signature.name, [definition, *nested]
