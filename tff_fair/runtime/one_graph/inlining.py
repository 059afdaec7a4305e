"""Adds the TensorFlow graphs in TFF's computations to a surrounding graph.

TFF does the same if one `tff.tensorflow.computation` calls another, but not
inside a loop. Values are tensors, datasets as variant tensors, and tuples of
values; their TFF types hold the names of fields.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission
from tff_fair.runtime.one_graph import dataset_loops

Value: TypeAlias = Any
# A Python function of one value, or of no arguments, that returns a value.
Function: TypeAlias = Callable[..., Value]
# Maps the names in an expression to values.
Bindings: TypeAlias = Mapping[str, Value]

# TensorFlow's name for unnamed variables, `ResourceHandle::ANONYMOUS_NAME`.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_RESOURCE = tf.resource.as_datatype_enum

_numbers = itertools.count()


def function_of(message: admission.Message) -> Function:
  """Converts a TFF function without placements to a Python function of values.

  For a literal, returns its value.
  """
  return evaluate_calls(message, _in_graph)


def _in_graph(message: admission.Message) -> Value:
  match message.WhichOneof("computation"):
    case "tensorflow":
      return _inliner(message)
    case "literal":
      literal = tff.framework.Literal.from_proto(message)
      return tf.constant(literal.value, literal.type_signature.dtype)
    case kind:
      raise admission.NotAdmittedError(f"an expression of kind {kind}")


def evaluate_calls(
  message: admission.Message,
  evaluate_other: Callable[[admission.Message], Value],
) -> Value:
  """Evaluates a TFF expression, including its calls and lambdas.

  Lambdas become Python functions. `evaluate_other` evaluates all kinds of
  expressions that this function and `evaluate` do not handle.
  """

  def evaluate_part(part: admission.Message, known: Bindings) -> Value:
    def value(inner: admission.Message, known: Bindings = known) -> Value:
      return evaluate(inner, known, evaluate_part)

    match part.WhichOneof("computation"):
      case "call":
        args = [part.call.argument] if part.call.HasField("argument") else []
        return value(part.call.function)(*map(value, args))
      case "lambda":
        function = getattr(part, "lambda")
        return lambda arg=None: value(
          function.result, {**known, function.parameter_name: arg}
        )
    return evaluate_other(part)

  return evaluate(message, {}, evaluate_part)


def evaluate(
  message: admission.Message,
  known: Bindings,
  evaluate_other: Callable[[admission.Message, Bindings], Value],
  select: Callable[[Value, int], Value] = operator.getitem,
) -> Value:
  """Evaluates a TFF expression; `known` has the values of its variables.

  `evaluate_other` evaluates calls and all other expressions without a case
  below. `select` returns the element at an index of a value that is not a
  tuple.
  """

  def value(part: admission.Message, known: Bindings = known) -> Value:
    return evaluate(part, known, evaluate_other, select)

  match message.WhichOneof("computation"):
    case "reference":
      return known[message.reference.name]
    case "selection":
      source = value(message.selection.source)
      # The compiler does not remove selections from impure functions' results.
      take = operator.getitem if isinstance(source, tuple) else select
      return take(source, message.selection.index)
    case "struct":
      return tuple(value(element.value) for element in message.struct.element)
    case "block":
      bindings = {**known}
      for local in message.block.local:
        bindings[local.name] = value(local.value, bindings)
      return value(message.block.result, bindings)
  return evaluate_other(message, known)


def _inliner(message: admission.Message) -> Function:
  """Returns a function that adds a computation's graph to the current graph."""
  program = message.tensorflow
  function_type = tff.types.deserialize_type(message.type)
  graph_def = tf.compat.v1.GraphDef()
  program.graph_def.Unpack(graph_def)
  _name_functions_by_content(graph_def)
  if any(
    node.op == dataset_loops.REDUCE for node in admission.nodes(graph_def)
  ):
    graph_def = dataset_loops.with_loops(graph_def)
    _name_functions_by_content(graph_def)  # The content has changed.
  variables = _variables_of(graph_def)
  if variables:
    if not program.initialize_op:
      raise admission.NotAdmittedError("variables without an initializer")
    graph_def = _with_unique_variables(graph_def, program.initialize_op)
  results = tensor_names(program.result)
  nodes = _keep_needed(graph_def, [*results, *variables])

  def add(*args: Value) -> Value:
    inputs: dict[str, tf.Tensor] = {}
    for arg in args:
      parameter = function_type.parameter
      inputs = {
        name: _optimization_barrier(value, leaf)
        for name, value, leaf in zip(
          tensor_names(program.parameter),
          leaves(arg, parameter),
          leaf_types(parameter),
          strict=True,
        )
      }
    if program.session_token_tensor_name:
      inputs[program.session_token_tensor_name] = tf.constant("")
    inputs = {
      name: tensor
      for name, tensor in inputs.items()
      if admission.node_of(name) in nodes
    }
    inputs |= {
      f"^{admission.node_of(name)}": tensor for name, tensor in inputs.items()
    }
    outputs = tf.graph_util.import_graph_def(
      _with_unique_frames(graph_def, f"_inlined_{next(_numbers)}"),
      inputs,
      [*results, *(f"{variable}:0" for variable in variables)],
      name="inlined",
    )
    result_types = leaf_types(function_type.result)
    computed = _wait_for_all(
      [*map(_optimization_barrier, outputs[: len(results)], result_types)],
      outputs[len(results) :],
    )
    return unflatten(computed, function_type.result)

  return add


def _optimization_barrier(value: tf.Tensor, leaf: tff.Type) -> tf.Tensor:
  """Hides from TensorFlow's optimizer how `value` was computed.

  In a TFF session, the optimizer works within one computation and knows only
  the types of its inputs. Across computations, it would simplify 0 times NaN to
  0, replace division by multiplication with a reciprocal, and reorder
  additions. A placeholder prevents that; an identity op does not.
  """
  if not isinstance(leaf, tff.TensorType):
    if value.dtype == tf.string:  # A serialized dataset.
      return tf.raw_ops.DatasetFromGraph(graph_def=value)
    return tf.identity(value)  # Inputs must be in the loop's own graph.
  return tf.compat.v1.placeholder_with_default(value, leaf.shape)


def _wait_for_all(
  results: Sequence[tf.Tensor], variables: Sequence[tf.Tensor]
) -> Sequence[tf.Tensor]:
  """Returns `results`; each becomes available only when all are computed.

  So an error in one result is raised even if only another result is used. The
  computation's `variables` are deleted before the results become available.
  """
  if len(results) < 2 and not variables:
    return results
  with tf.control_dependencies(results):
    last = [
      tf.raw_ops.DestroyResourceOp(resource=v, ignore_lookup_error=True)
      for v in variables
    ] or [tf.no_op()]
  with tf.control_dependencies(last):
    return [*map(tf.identity, results)]


def _with_unique_frames(graph_def: Any, suffix: str) -> Any:
  """Returns a graph in which each lowered loop has a unique name.

  TensorFlow treats loops of the same name as one loop.
  """
  renamed = type(graph_def)()
  renamed.CopyFrom(graph_def)
  for node in renamed.node:
    if "frame_name" in node.attr:
      node.attr["frame_name"].s += suffix.encode()
  return renamed


def _name_functions_by_content(graph_def: Any) -> None:
  """Appends a digest of a graph's functions to each function's name.

  All functions of a program share one namespace in TensorFlow. Two computations
  may use the same name for different functions, since each program that builds
  computations numbers functions anew.
  """
  library = graph_def.library
  if not library.function:
    return
  content = library.SerializeToString(deterministic=True)
  suffix = f"_{hashlib.sha256(content).hexdigest()[:16]}"
  new_names = {
    function.signature.name: function.signature.name + suffix
    for function in library.function
  }
  for function in library.function:
    function.signature.name = new_names[function.signature.name]
  for gradient in library.gradient:
    for field in ("function_name", "gradient_func"):
      name = getattr(gradient, field)
      setattr(gradient, field, new_names.get(name, name))
  for node in admission.nodes(graph_def):
    node.op = new_names.get(node.op, node.op)
    for attribute in node.attr.values():
      functions = [*attribute.list.func]
      if attribute.HasField("func"):
        functions.append(attribute.func)
      for function in functions:
        function.name = new_names.get(function.name, function.name)


def tensor_names(binding: Any) -> list[str]:
  """Returns the names of the tensors that a TFF binding refers to."""
  match binding.WhichOneof("binding"):
    case "struct":
      members = binding.struct.element
      return [name for member in members for name in tensor_names(member)]
    case "sequence":
      return [binding.sequence.variant_tensor_name]
    case "tensor":
      return [binding.tensor.tensor_name]
  return []


def unflatten(tensors: Iterable[Any], type_spec: tff.Type) -> Value:
  """Packs `tensors` into nested tuples with the structure of `type_spec`."""
  remaining = iter(tensors)

  def pack(part: tff.Type) -> Value:
    if isinstance(part, tff.FederatedType):
      return pack(part.member)
    if isinstance(part, tff.StructType):
      return tuple(map(pack, part))
    return next(remaining)

  return pack(type_spec)


def leaves(value: Value, type_spec: tff.Type) -> list[Any]:
  """Returns the tensors and sequences of a value in the order of its type."""
  if not isinstance(type_spec, tff.StructType):
    return [value]
  return [
    leaf
    for member, member_type in zip(value, type_spec, strict=True)
    for leaf in leaves(member, member_type)
  ]


def dtype_of(leaf: tff.TensorType) -> Any:
  """Returns the TensorFlow dtype of a TFF type."""
  return tf.string if leaf.dtype is np.str_ else tf.as_dtype(leaf.dtype)


def leaf_types(type_spec: tff.Type | None) -> list[tff.Type]:
  """Returns the tensor and sequence types in a type; no types for `None`."""
  if isinstance(type_spec, tff.StructType):
    return [leaf for part in type_spec for leaf in leaf_types(part)]
  return [] if type_spec is None else [type_spec]


def _variables_of(graph_def: Any) -> list[str]:
  """Returns the names of the nodes that create variables."""
  return [node.name for node in graph_def.node if node.op == admission.VARIABLE]


def _with_unique_variables(graph_def: Any, initializer: str) -> Any:
  """Returns a graph in which each run creates and initializes its variables.

  TFF runs the graph of each client in a new session: first the initializers of
  variables, then the other nodes. In a loop, all clients would share variables.
  Here each run creates variables without a name, which no other run can find.
  """
  changed = type(graph_def)()
  changed.CopyFrom(graph_def)
  before = _ancestors(graph_def, initializer)
  made = set(_variables_of(graph_def))
  passed_on = {
    node.name
    for node in graph_def.node
    # An operation that returns its input variable.
    if node.name in before
    and "T" in node.attr
    and node.attr["T"].type == _RESOURCE
  }
  for node in changed.node:
    if node.name in made:
      node.attr["shared_name"].s = _ANONYMOUS
    elif node.name not in before:
      for place, name in enumerate(node.input):
        if name.removesuffix(":0") in made | passed_on:
          node.input[place] = _ready_variable(name.removesuffix(":0"))
  for name in sorted(made | passed_on):
    ready = changed.node.add(name=_ready_variable(name), op="Identity")
    ready.input.extend([name, f"^{initializer}"])
    ready.attr["T"].type = _RESOURCE
  return changed


def _ready_variable(name: str) -> str:
  return f"{name}/ready"


def _keep_needed(graph_def: Any, results: Sequence[str]) -> set[str]:
  """Removes nodes that no result needs; returns the needed nodes' names."""
  needed = _ancestors(graph_def, *map(admission.node_of, results))
  kept = [node for node in graph_def.node if node.name in needed]
  if len(kept) < len(graph_def.node):
    part = type(graph_def)(node=kept)
    del graph_def.node[:]
    graph_def.node.extend(part.node)
  return needed


def _ancestors(graph_def: Any, *nodes: str) -> set[str]:
  """Returns the names of `nodes`, and of all nodes on which these depend."""
  inputs = {
    node.name: [*map(admission.node_of, node.input)] for node in graph_def.node
  }
  found: set[str] = set()
  remaining = [*nodes]
  while remaining:
    node = remaining.pop()
    if node not in found:
      found.add(node)
      remaining += inputs[node]
  return found
