"""Adds the TensorFlow inside of TFF's computations to a graph.

TFF does the same where one `tff.tensorflow.computation` calls another, but not
inside a loop. Values are tensors, variants of datasets, and tuples of values:
names of fields are in the types.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime.one_graph import own_variables

# A computation as TFF serializes it.
Message: TypeAlias = Any
Value: TypeAlias = Any
# From a value, or from nothing, to a value.
Function: TypeAlias = Callable[..., Value]

# Operations with a state that lasts as long as one run of what calls them, or
# is in a variable (`own_variables`). All others with a state are tables, random
# generators and the like: in a loop, clients would share them.
_OWN_STATE = (
  "Assert",
  "Case",
  "If",
  "Print",
  "PrintV2",
  "StatefulPartitionedCall",
  "While",
)
_OF_DATASETS = (
  "AnonymousIterator",
  "DeleteIterator",
  "IteratorGetNext",
  "MakeIterator",
  "Optional",
)

# It runs in tf.data's own executor, which takes a tenth longer in one graph.
_REDUCE = "ReduceDataset"
_OF_VARIABLES = (
  "Assign",
  "ReadVariable",
  "Resource",
  "VarIs",
  "VariableShape",
  own_variables.HANDLE,
)

_numbers = itertools.count()


class NotOneGraphError(Exception):
  """What a computation has, with which it cannot be one graph."""


def function_of(message: Message, known: Mapping[str, Value]) -> Function:
  """Returns a function on values from a function without placements.

  Args:
    message: A TensorFlow computation, or a lambda that calls such.
    known: The values that names in it stand for.

  Raises:
    NotOneGraphError: If it has anything else in it.
  """
  kind = message.WhichOneof("computation")
  if kind == "tensorflow":
    return _inlined(message)
  if kind == "lambda":
    lambda_message = getattr(message, "lambda")

    def call(*args: Value) -> Value:
      named = [(lambda_message.parameter_name, arg) for arg in args]
      return _value_of(lambda_message.result, {**known, **dict(named)})

    return call
  raise NotOneGraphError(f"a function of kind {kind}")


def _value_of(message: Message, known: Mapping[str, Value]) -> Value:
  """Returns what an expression without placements stands for."""
  return expression(message, known, _value_of_call)


def _value_of_call(message: Message, known: Mapping[str, Value]) -> Value:
  function = function_of(message.call.function, known)
  if message.call.HasField("argument"):
    return function(_value_of(message.call.argument, known))
  return function()


def expression(
  message: Message,
  known: Mapping[str, Value],
  of_call: Callable[[Message, Mapping[str, Value]], Value],
) -> Value:
  """Returns what an expression stands for.

  Args:
    message: The expression.
    known: What the names in it stand for.
    of_call: Returns what a call in it stands for.

  Raises:
    NotOneGraphError: If it has anything else in it.
  """
  kind = message.WhichOneof("computation")
  if kind == "reference":
    return known[message.reference.name]
  if kind == "selection":
    selection = message.selection
    return expression(selection.source, known, of_call)[selection.index]
  if kind == "struct":
    elements = message.struct.element
    return tuple(expression(e.value, known, of_call) for e in elements)
  if kind == "block":
    known = {**known}
    for local in message.block.local:
      known[local.name] = expression(local.value, known, of_call)
    return expression(message.block.result, known, of_call)
  if kind == "call":
    return of_call(message, known)
  raise NotOneGraphError(f"an expression of kind {kind}")


def _inlined(message: Message) -> Function:
  """Returns a function that adds the graph of a TensorFlow computation."""
  program = message.tensorflow
  result_type = tff.types.deserialize_type(message.type).result
  graph_def = tf.compat.v1.GraphDef()
  program.graph_def.Unpack(graph_def)
  _check_keeps_nothing(graph_def)
  variables = own_variables.handles(graph_def)
  if variables:
    if not program.initialize_op:
      raise NotOneGraphError("variables that nobody initializes")
    graph_def = own_variables.with_own(graph_def, program.initialize_op)

  def add(*args: Value) -> Value:
    inputs: dict[str, tf.Tensor] = {}
    for arg in args:
      # In a loop, an input must be a tensor of the loop's own graph.
      inputs |= {
        name: tf.identity(value)
        for name, value in _tensors(program.parameter, arg)
      }
    if program.session_token_tensor_name:
      inputs[program.session_token_tensor_name] = tf.constant("")
    inputs |= {
      f"^{name.split(':')[0]}": tensor for name, tensor in inputs.items()
    }
    names = _names(program.result)
    outputs = tf.graph_util.import_graph_def(
      _with_own_frames(graph_def, f"_inlined_{next(_numbers)}"),
      inputs,
      [*names, *(f"{variable}:0" for variable in variables)],
      name="inlined",
    )
    results = outputs[: len(names)]
    if variables:
      made = outputs[len(names) :]
      results = [*own_variables.dropped_after(results, made)]
    for tensor, leaf in zip(results, leaf_types(result_type), strict=True):
      if isinstance(leaf, tff.TensorType):
        tensor.set_shape(leaf.shape)
    return _result(program.result, iter(results))

  return add


def _check_keeps_nothing(graph_def: Any) -> None:
  """Raises a `NotOneGraphError` if clients would share something."""
  known = tf.Graph()
  own = {function.signature.name for function in graph_def.library.function}
  in_functions = {
    node.op
    for function in graph_def.library.function
    for node in function.node_def
  }
  operations = {node.op for node in graph_def.node} | in_functions
  if _REDUCE in operations:
    raise NotOneGraphError("`Dataset.reduce`")
  for name in operations:
    if name in own or not known.op_def_for_type(name).is_stateful:
      continue
    if (
      name not in _OWN_STATE
      and "Dataset" not in name
      and not name.startswith((*_OF_DATASETS, *_OF_VARIABLES))
    ) or (name == own_variables.HANDLE and name in in_functions):
      raise NotOneGraphError(f"operation {name}, which keeps a state")


def _with_own_frames(graph_def: Any, suffix: str) -> Any:
  """Returns a graph whose lowered loops have names of their own.

  TensorFlow takes loops of the same name for one loop.
  """
  renamed = type(graph_def)()
  renamed.CopyFrom(graph_def)
  for node in renamed.node:
    if "frame_name" in node.attr:
      node.attr["frame_name"].s += suffix.encode()
  return renamed


def _tensors(binding: Any, value: Value) -> Iterator[tuple[str, tf.Tensor]]:
  """Yields the name of each input in a graph with its tensor."""
  kind = binding.WhichOneof("binding")
  if kind == "struct":
    for element, member in zip(binding.struct.element, value, strict=True):
      yield from _tensors(element, member)
  else:
    yield _name(binding), value


def _names(binding: Any) -> list[str]:
  """Returns the names of the results in a graph."""
  if binding.WhichOneof("binding") != "struct":
    return [_name(binding)]
  return [n for element in binding.struct.element for n in _names(element)]


def _name(binding: Any) -> str:
  if binding.WhichOneof("binding") == "sequence":
    return str(binding.sequence.variant_tensor_name)
  return str(binding.tensor.tensor_name)


def _result(binding: Any, tensors: Iterator[tf.Tensor]) -> Value:
  if binding.WhichOneof("binding") != "struct":
    return next(tensors)
  return tuple(_result(element, tensors) for element in binding.struct.element)


def leaves(value: Value) -> list[tf.Tensor]:
  """Returns the tensors of a value, in their order."""
  if not isinstance(value, tuple):
    return [value]
  return [tensor for member in value for tensor in leaves(member)]


def packed(tensors: Iterable[tf.Tensor], type_spec: tff.Type) -> Value:
  """Returns the value of a type that has these tensors.

  Args:
    tensors: As `leaves` returns them.
    type_spec: Its type, of tensors and structures.
  """
  remaining = iter(tensors)

  def pack(part: tff.Type) -> Value:
    if isinstance(part, tff.StructType):
      return tuple(map(pack, part))
    return next(remaining)

  return pack(type_spec)


def leaf_types(type_spec: tff.Type) -> list[tff.Type]:
  """Returns the types of the tensors and sequences of a type."""
  if isinstance(type_spec, tff.StructType):
    return [leaf for part in type_spec for leaf in leaf_types(part)]
  return [type_spec]
