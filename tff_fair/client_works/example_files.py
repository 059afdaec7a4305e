"""Clients whose examples the worker reads from files, in place of messages.

A client's data is then one element `(client_id, path, examples)`. Where `path`
is empty, the examples are those of the element. Else the element has none, and
they are the bytes of a file: the arrays one after the other, row after row,
without a header. The worker must be able to open it.

No number is converted on the way: the same bits arrive either way.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.types import TensorStructure

# `tf.bitcast` makes these of bytes.
_KINDS = "fiu"


def can_hold(batch_spec: TensorStructure) -> bool:
  """Returns whether a file can hold examples: the size of each is known.

  Args:
    batch_spec: Structure of `tf.TensorSpec` [None, ...].
  """
  return all(
    spec.shape.rank
    and spec.shape[1:].is_fully_defined()
    and spec.dtype.is_numpy_compatible
    and np.dtype(spec.dtype.as_numpy_dtype).kind in _KINDS
    and _bytes_per_row(spec) > 0
    for spec in tf.nest.flatten(batch_spec)
  )


def contents(examples: Any, batch_spec: TensorStructure) -> list[np.ndarray]:
  """Returns the bytes that a file of some examples consists of.

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


def read(path: tf.Tensor, batch_spec: TensorStructure) -> Any:
  """Returns the examples in a file, in a graph.

  Args:
    path: string[], the file.
    batch_spec: As it was written.

  Returns:
    Structure of tensors, one row for each example.
  """
  specs = tf.nest.flatten(batch_spec)
  data = tf.io.decode_raw(tf.io.read_file(path), tf.uint8)
  num_rows = tf.size(data, tf.int64) // sum(map(_bytes_per_row, specs))
  arrays, start = [], tf.zeros([], tf.int64)
  for spec in specs:
    stop = start + num_rows * _bytes_per_row(spec)
    arrays.append(_array(data[start:stop], num_rows, spec))
    start = stop
  return tf.nest.pack_sequence_as(batch_spec, arrays)


def _array(data: tf.Tensor, num_rows: tf.Tensor, spec: tf.TensorSpec) -> Any:
  shape: Sequence[Any] = [num_rows, *spec.shape[1:]]
  size = spec.dtype.size
  # `tf.bitcast` takes the bytes of a number along the last axis.
  array = tf.bitcast(
    tf.reshape(data, [*shape, size] if size > 1 else shape), spec.dtype
  )
  return tf.ensure_shape(array, [None, *spec.shape[1:]])


def _bytes_per_row(spec: tf.TensorSpec) -> int:
  return int(spec.shape[1:].num_elements() * spec.dtype.size)


class InFiles:
  """Makes the data of clients whose examples are in files.

  These datasets differ in an id and a path alone, so they share the parts of
  their element, and the graph that a worker gets. To make both anew for each
  client takes a millisecond of Python, as long as a small client trains.
  """

  def __init__(self, batch_spec: TensorStructure) -> None:
    """Takes what the model takes."""
    none = tf.nest.map_structure(
      lambda spec: tf.zeros([0, *spec.shape[1:]], spec.dtype), batch_spec
    )
    self._none = tf.nest.flatten(none)
    self._element_spec = (
      tf.TensorSpec([], tf.int64),
      tf.TensorSpec([], tf.string),
      tf.nest.map_structure(tf.TensorSpec.from_tensor, none),
    )
    self._element_type = tff.types.tensorflow_to_type(self._element_spec)
    message, _ = tff.framework.serialize_value(
      self._dataset(1, "path"), tff.SequenceType(self._element_type)
    )
    self._graph = tf.compat.v1.GraphDef.FromString(
      message.sequence.serialized_graph_def
    )
    nodes = {node.name: node for node in self._graph.node}
    (dataset,) = (n for n in self._graph.node if n.op == "TensorDataset")
    self._client_id, self._path = (
      nodes[name].attr["value"].tensor for name in dataset.input[:2]
    )

  def __call__(self, client_id: int, path: str) -> tf.data.Dataset:
    """Returns the data of a client, a dataset of one element.

    Args:
      client_id: The client's id.
      path: The file, as the worker finds it.

    Returns:
      The dataset. Its attributes `serialized_graph` and `element_type` are what
      a message to a worker has, see `tff_fair.runtime.sending`.
    """
    dataset = self._dataset(client_id, path)
    self._client_id.int64_val[:] = [client_id]
    self._path.string_val[:] = [path.encode()]
    dataset.serialized_graph = self._graph.SerializeToString()
    dataset.element_type = self._element_type
    return dataset

  def _dataset(self, client_id: int, path: str) -> "_OneElement":
    parts = (tf.constant(client_id, tf.int64), tf.constant(path), *self._none)
    return _OneElement(parts, self._element_spec)


class _OneElement(tf.data.Dataset):
  """`from_tensors`, of an element whose parts are tensors of known specs."""

  serialized_graph: bytes
  element_type: tff.Type

  def __init__(
    self, parts: Sequence[tf.Tensor], element_spec: TensorStructure
  ) -> None:
    self._element_spec = element_spec
    super().__init__(
      tf.raw_ops.TensorDataset(
        components=parts, output_shapes=[part.shape for part in parts]
      )
    )

  def _inputs(self) -> list[tf.data.Dataset]:
    return []  # It is made of no others.

  @property
  def element_spec(self) -> TensorStructure:
    return self._element_spec


def in_messages(client_id: int, examples: tf.data.Dataset) -> tf.data.Dataset:
  """Returns the data of a client whose examples travel in messages.

  Args:
    client_id: The client's id.
    examples: As `tff_fair.client_dataset` takes them.
  """
  ids, paths = (
    tf.data.Dataset.from_tensors(value).repeat()
    for value in (tf.constant(client_id, tf.int64), "")
  )
  return tf.data.Dataset.zip((ids, paths, examples))
