"""Converts arguments to the inputs of a graph that computes all clients.

For each dataset and each tensor in a client's value, the graph takes a column:
a vector with a variant for each client. For datasets that shuffle, the column
contains serialized graphs instead: each function that reads such a dataset
rebuilds it from its graph, as in TFF's executors.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, supervision, tff_internals, values
from tff_fair.runtime.admission import ReadLimit
from tff_fair.runtime.one_graph import inlining

# In a graph, maps a client's number, int32[], to the client's value.
ClientReader: TypeAlias = Callable[[tf.Tensor], inlining.Value]

# The value of `tf.data.experimental.ExternalStatePolicy.FAIL`.
_FAIL = 2


class ServerValue:
  """The graph's inputs for an argument at the server: one tensor per leaf."""

  def __init__(self, type_spec: tff.Type) -> None:
    leaves = inlining.leaf_types(type_spec)
    if not all(isinstance(leaf, tff.TensorType) for leaf in leaves):
      raise admission.NotAdmittedError("data at the server")
    self._type = type_spec
    self.signature = [
      tf.TensorSpec(leaf.shape, inlining.dtype_of(leaf)) for leaf in leaves
    ]

  def to_tensors(self, value: inlining.Value) -> list[tf.Tensor]:
    """Converts an argument to the graph's inputs: its leaves as tensors."""
    leaves = inlining.leaves(value, self._type)
    return [
      tf.convert_to_tensor(leaf, spec.dtype)
      for leaf, spec in zip(leaves, self.signature, strict=True)
    ]

  def read(self, given: Sequence[tf.Tensor]) -> inlining.Value:
    """Returns the argument in the graph, from the inputs `given`."""
    return inlining.unflatten(given, self._type)


class Columns:
  """The graph's inputs for an argument at clients: one column per leaf."""

  def __init__(self, member: tff.Type, required_limit: ReadLimit) -> None:
    """Takes the type of a client's value, and how often datasets are read."""
    self._member = member
    self._types = inlining.leaf_types(member)
    self._required_limit = required_limit
    once = required_limit is ReadLimit.ONCE_PER_REBUILD
    self.signature = [
      tf.TensorSpec(
        [None],
        tf.string
        if once and isinstance(leaf, tff.SequenceType)
        else tf.variant,
      )
      for leaf in self._types
    ]

  def to_tensors(self, clients: Sequence[Any]) -> list[tf.Tensor]:
    """Converts the clients' values to the graph's inputs, a column per leaf."""
    rows = [inlining.leaves(value, self._member) for value in clients]
    return [
      tf.constant([_text(row[place]) for row in rows], tf.string)
      if spec.dtype == tf.string
      else _stacked([_variant(row[place]) for row in rows])
      for place, spec in enumerate(self.signature)
    ]

  def may_read(self, clients: Sequence[Any]) -> bool:
    """Returns whether all datasets may be read as often as required."""
    return all(
      _read_limit(leaf) >= self._required_limit
      for value in clients
      for leaf, leaf_type in zip(
        inlining.leaves(value, self._member), self._types, strict=True
      )
      if isinstance(leaf_type, tff.SequenceType)
    )

  def read(self, given: Sequence[tf.Tensor]) -> ClientReader:
    """Returns a function that reads a client's value from inputs `given`."""

    def of_client(client: tf.Tensor) -> inlining.Value:
      with tf.control_dependencies([supervision.count_client()]):
        client = tf.identity(client)
      leaves = [
        _from_variant(tf.gather(column, client), leaf)
        for column, leaf in zip(given, self._types, strict=True)
      ]
      return inlining.unflatten(leaves, self._member)

    return of_client


# The graph's inputs for one argument.
Input: TypeAlias = Columns | ServerValue


def _stacked(variants: Sequence[tf.Tensor]) -> tf.Tensor:
  return tf.stack(variants) if variants else _no_variants()


@functools.cache
def _no_variants() -> tf.Tensor:
  return tf.stack([tf.raw_ops.OptionalNone()])[:0]


def _variant(leaf: Any) -> tf.Tensor:
  if isinstance(leaf, values.SerializedData):
    return tf.raw_ops.DatasetFromGraph(graph_def=leaf.graph)
  if isinstance(leaf, tf.data.Dataset):
    return tf.data.experimental.to_variant(leaf)
  return tf.raw_ops.OptionalFromValue(components=[leaf])


def _text(data: Any) -> bytes:
  """Returns a dataset's serialized graph, without references to its state."""
  graph_def = tf.compat.v1.GraphDef.FromString(values.serialize(data))
  for node in graph_def.node:
    # A dataset with the handle's original name would share the seed generator
    # of `data`, and continue its sequence.
    for handle in node.attr["value"].tensor.resource_handle_val:
      handle.name = "none"
  return bytes(graph_def.SerializeToString())


def _from_variant(variant: tf.Tensor, leaf: tff.Type) -> tf.Tensor:
  if isinstance(leaf, tff.SequenceType):
    return variant
  (tensor,) = tf.raw_ops.OptionalGetValue(
    optional=variant,
    output_types=[inlining.dtype_of(leaf)],
    output_shapes=[leaf.shape],
  )
  return tensor


# The read limits of datasets, cached since a client may be sampled again.
_read_limits: weakref.WeakKeyDictionary[Any, ReadLimit] = (
  weakref.WeakKeyDictionary()
)


def single_element_dataset(element: Any, element_spec: Any) -> tf.data.Dataset:
  """Builds a dataset of one element, three times as fast as TensorFlow."""
  components = [*map(tf.convert_to_tensor, tf.nest.flatten(element))]
  variant = tf.raw_ops.TensorDataset(
    components=components, output_shapes=[c.shape for c in components]
  )
  data = tf.data.experimental.from_variant(variant, element_spec)
  _read_limits[data] = ReadLimit.UNLIMITED
  return data


def _read_limit(data: Any) -> ReadLimit:
  if isinstance(data, values.SerializedData):
    return admission.read_limit(data.graph)
  if tff_internals.has_only_tensors(data):
    return ReadLimit.UNLIMITED
  if data not in _read_limits:
    # TensorFlow refuses to serialize datasets with variables or tables.
    variant = tf.data.experimental.to_variant(data)
    try:
      graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=variant, external_state_policy=_FAIL
      )
      _read_limits[data] = admission.read_limit(graph.numpy())
    except tf.errors.OpError:
      _read_limits[data] = ReadLimit.UNKNOWN
  return _read_limits[data]
