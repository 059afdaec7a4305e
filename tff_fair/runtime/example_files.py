"""Clients whose examples a worker takes out of files, in place of messages.

A file has the rows of one array, of many clients, without a header; a client's
rows lie one after the other.

A client's data is a dataset of one element `(client_id, examples)`, as ever. A
message has the graph of a dataset. Here that graph holds no examples: it maps
files into the worker's memory (`ImmutableConst`) and takes the client's rows.
So places alone travel, and the worker reads no more of a file than these rows.
It must be able to open the file.

No number is converted on the way: the same bits arrive either way.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# A structure of `tf.TensorSpec` [None, ...], in the containers of `tf.nest`.
BatchSpec: TypeAlias = Any

# Floats and integers: any bits are a number.
_KINDS = "fiu"


class Place(NamedTuple):
  """Where a client's rows of an array lie.

  Attributes:
    path: The file, as the worker finds it. It must stay as long as the data.
    first_row: The first of the rows.
  """

  path: str
  first_row: int


def can_hold(batch_spec: BatchSpec) -> bool:
  """Returns whether a file can hold examples: the size of each is known.

  Args:
    batch_spec: Structure of `tf.TensorSpec` [None, ...].
  """
  return all(
    spec.shape.rank
    and spec.shape[1:].is_fully_defined()
    and spec.dtype.is_numpy_compatible
    and np.dtype(spec.dtype.as_numpy_dtype).kind in _KINDS
    and bytes_per_row(spec) > 0
    for spec in tf.nest.flatten(batch_spec)
  )


def bytes_per_row(spec: tf.TensorSpec) -> int:
  """Returns how many bytes of an array are one example's."""
  return int(spec.shape[1:].num_elements() * spec.dtype.size)


def contents(examples: Any, batch_spec: BatchSpec) -> list[np.ndarray]:
  """Returns the bytes of some examples.

  Args:
    examples: Structure of arrays, with one row for each example.
    batch_spec: What the model takes; `can_hold` says that it fits.

  Returns:
    One uint8[n] for each array; they share its memory if they can.

  Raises:
    ValueError: If the arrays are not what `batch_spec` says.
  """
  tf.nest.assert_same_structure(examples, batch_spec)
  arrays = [np.asarray(array) for array in tf.nest.flatten(examples)]
  for array, spec in zip(arrays, tf.nest.flatten(batch_spec), strict=True):
    if (
      array.dtype != spec.dtype.as_numpy_dtype
      or array.shape[1:] != tuple(spec.shape[1:])
      or len(array) != len(arrays[0])
    ):
      raise ValueError(
        f"Expected examples of {spec}, {len(arrays[0])} rows, found "
        f"{array.dtype} of shape {list(array.shape)}."
      )
  return [
    np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays
  ]


class RowsInFiles(NamedTuple):
  """Where a client's examples are.

  Attributes:
    client_id: The client's id.
    num_rows: Its number of examples.
    places: Where its rows of each array lie.
  """

  client_id: int
  num_rows: int
  places: Sequence[Place]


class InFiles:
  """Makes the data of clients whose examples are in files.

  The graphs of these datasets differ in an id and in places alone. TensorFlow
  takes a millisecond to make the dataset and the graph of a client, as long as
  a small client trains; here all share one graph, which is written anew.
  """

  def __init__(self, batch_spec: BatchSpec) -> None:
    """Takes what the model takes; `can_hold` says that it fits."""
    self._specs = tf.nest.flatten(batch_spec)
    self._element_spec = (tf.TensorSpec([], tf.int64), batch_spec)
    self._element_type = tff.types.tensorflow_to_type(self._element_spec)
    self._graph = _graph(self._specs)
    nodes = {node.name: node for node in self._graph.node}
    self._client_id = _constant(nodes["client_id"])
    self._arrays = [
      _ArrayNodes(
        file=nodes[f"file_{k}"],
        begin=_constant(nodes[f"begin_{k}"]),
        size=_constant(nodes[f"size_{k}"]),
      )
      for k in range(len(self._specs))
    ]

  def __call__(
    self, client_id: int, num_rows: int, places: Sequence[Place]
  ) -> ClientInFiles:
    """Returns the data of a client, a dataset of one element.

    Args:
      client_id: The client's id.
      num_rows: Its number of examples, one or more.
      places: Where its rows of each array lie, in the order of the flat spec.

    Returns:
      The dataset. Where one graph takes the data of all clients, its
      `rows_in_files` are enough.
    """
    self._client_id.tensor_content = _int64(client_id)
    for nodes, place, spec in zip(
      self._arrays, places, self._specs, strict=True
    ):
      nodes.file.attr["memory_region_name"].s = place.path.encode()
      # The file may be longer.
      nodes.file.attr["shape"].shape.dim[0].size = place.first_row + num_rows
      row = spec.shape[1:]
      nodes.begin.tensor_content = _int64(place.first_row, *(0 for _ in row))
      nodes.size.tensor_content = _int64(num_rows, *row)
    return ClientInFiles(
      self._graph.SerializeToString(),
      self._element_spec,
      self._element_type,
      RowsInFiles(client_id, num_rows, places),
    )


class _ArrayNodes(NamedTuple):
  """The parts of a graph that say where an array lies."""

  file: Any
  begin: Any
  size: Any


def _graph(specs: Sequence[tf.TensorSpec]) -> Any:
  """Returns the graph of a dataset, with places to be filled in."""
  with tf.Graph().as_default():
    components = [tf.constant(0, tf.int64, name="client_id")]
    for k, spec in enumerate(specs):
      shape = [0, *spec.shape[1:]]
      rows = tf.raw_ops.ImmutableConst(
        dtype=spec.dtype,
        shape=shape,
        memory_region_name="",
        name=f"file_{k}",
      )
      begin, size = (
        tf.constant(shape, tf.int64, name=f"{name}_{k}")
        for name in ("begin", "size")
      )
      # A copy: TensorFlow writes the results of an operation into a tensor that
      # no other operation needs. A write into mapped memory would crash.
      components.append(tf.raw_ops.DeepCopy(x=tf.slice(rows, begin, size)))
    dataset = tf.raw_ops.TensorDataset(
      components=components,
      output_shapes=[[], *(spec.shape for spec in specs)],
    )
  return graph_of(dataset)


def graph_of(dataset: tf.Tensor) -> Any:
  """Returns the graph of a dataset, as `DatasetToGraphV2` would make it.

  Args:
    dataset: The operation that makes the dataset, in a graph of its own.
  """
  graph_def = dataset.graph.as_graph_def()
  result = graph_def.node.add(name="dataset", op="_Retval")
  result.input.append(dataset.op.name)
  result.attr["T"].type = tf.variant.as_datatype_enum
  result.attr["index"].i = 0
  return graph_def


def _constant(node: Any) -> Any:
  """Returns the value of a constant, to be written as `tensor_content`."""
  tensor = node.attr["value"].tensor
  tensor.ClearField("int64_val")
  return tensor


def _int64(*numbers: int) -> bytes:
  return np.array(numbers, "<i8").tobytes()


class KnownGraph:
  """A client's data by its graph, which TensorFlow would take long to make.

  Attributes:
    serialized_graph: As `DatasetToGraphV2` returns it.
    element_type: The type of the elements.
  """

  def __init__(self, serialized_graph: bytes, element_type: tff.Type) -> None:
    """Takes the graph and the type of its elements."""
    self.serialized_graph = serialized_graph
    self.element_type = element_type


class ClientInFiles(KnownGraph, tf.data.Dataset):
  """A dataset of one element; TensorFlow gets it only if a program iterates.

  Attributes:
    rows_in_files: Where the rows of the client are.
    client_id: The client's id.
  """

  def __init__(
    self,
    serialized_graph: bytes,
    element_spec: BatchSpec,
    element_type: tff.Type,
    rows_in_files: RowsInFiles,
  ) -> None:
    """Takes the graph, what an element is, and what the graph is made of."""
    KnownGraph.__init__(self, serialized_graph, element_type)
    self.rows_in_files = rows_in_files
    self.client_id = rows_in_files.client_id
    self._element_spec = element_spec
    tf.data.Dataset.__init__(self, None)

  @functools.cached_property
  def _variant_tensor(self) -> tf.Tensor:
    return tf.raw_ops.DatasetFromGraph(graph_def=self.serialized_graph)

  def _inputs(self) -> list[tf.data.Dataset]:
    return []  # It is made of no others.

  @property
  def element_spec(self) -> BatchSpec:
    """The specs of the element."""
    return self._element_spec
