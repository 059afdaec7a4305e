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


def in_file(
  client_id: int, path: str, batch_spec: TensorStructure
) -> tf.data.Dataset:
  """Returns the data of a client whose examples are in a file.

  Args:
    client_id: The client's id.
    path: The file, as the worker finds it.
    batch_spec: What the model takes.

  Returns:
    A dataset of one element.
  """
  none = tf.nest.map_structure(
    lambda spec: tf.zeros([0, *spec.shape[1:]], spec.dtype), batch_spec
  )
  return tf.data.Dataset.from_tensors(
    (tf.constant(client_id, tf.int64), path, none)
  )


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
