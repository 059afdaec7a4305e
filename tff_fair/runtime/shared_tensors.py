"""Computations that read and write the large tensors of values at the server.

The rest of a value goes through them as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import native, shared_layout

# Computations that are kept, for executors to come; each is small.
_MOST_COMPUTATIONS = 32


@functools.lru_cache(_MOST_COMPUTATIONS)
def build_reader(
  type_spec: tff.FederatedType, shared: tuple[bool, ...]
) -> tff.Computation:
  """Builds the computation that reads the large tensors of a value.

  Args:
    type_spec: The type of the value, at the server.
    shared: Which of its tensors are in files. If the value comes from a writer,
      also which of the leaves that describe packs are paths of files.

  Returns:
    A `tff.Computation` from the flat list of its tensors, with paths in place
    of those in files, and of the leaves that describe packs, to the value.
  """
  types = [*shared_layout.tensor_types(type_spec)]
  leaf_types = [
    tff.TensorType(np.str_) if is_shared else leaf_type
    for is_shared, leaf_type in zip(
      shared, [*types, *shared_layout.pack_types(type_spec)], strict=False
    )
  ]

  @tff.tensorflow.computation(tff.to_type(leaf_types))
  def read(leaves: Sequence[tf.Tensor]) -> Any:
    tensors = [
      _read(leaf, tensor_type) if is_shared else tf.identity(leaf)
      for leaf, is_shared, tensor_type in zip(
        leaves, shared, types, strict=False
      )
    ]
    for places, start in shared_layout.packs_in(type_spec, shared):
      rows = _read(leaves[start], types[places[0]])
      split = tf.split(rows, leaves[start + 1], num=len(places))
      for place, tensor in zip(places, split, strict=True):
        if not shared[place]:
          tensors[place] = tf.ensure_shape(tensor, types[place].shape)
    return shared_layout.structured(iter(tensors), type_spec)

  @tff.federated_computation(
    tff.FederatedType(read.type_signature.parameter, tff.SERVER)
  )
  def read_at_server(leaves: tff.Value) -> tff.Value:
    return tff.federated_map(read, leaves)

  return native.to_native(read_at_server)


def _read(path: tf.Tensor, tensor_type: tff.TensorType) -> tf.Tensor:
  tensor = tf.io.parse_tensor(tf.io.read_file(path), tensor_type.dtype)
  return tf.ensure_shape(tensor, tensor_type.shape)


@functools.lru_cache(_MOST_COMPUTATIONS)
def build_writer(type_spec: tff.Type) -> tff.Computation:
  """Builds the computation that writes the large tensors of a value.

  Args:
    type_spec: The type of the value, see `is_at_server`.

  Returns:
    A `tff.Computation` from the value, and a path for each leaf of its result
    that `may_have_file`, to a flat list: the tensors of the value, without the
    rows that it has written, and for each of `packs` its path, and how many
    rows of each tensor it has, int64[tensors]: none if there is no pack.
  """
  types = [*shared_layout.tensor_types(type_spec)]
  paths_type = tff.FederatedType(
    [tff.TensorType(np.str_)] * sum(shared_layout.may_have_file(type_spec)),
    tff.SERVER,
  )

  @tff.federated_computation(type_spec, paths_type)
  def write_at_server(value: tff.Value, paths: tff.Value) -> tff.Value:
    arg = tff.federated_zip((value, paths))

    @tff.tensorflow.computation(arg.type_signature.member)
    def write(value: Any, paths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
      tensors = [*shared_layout.leaves(value, arg.type_signature.member[0])]
      num_alone = sum(map(shared_layout.may_be_large, types))
      about_packs = []
      for places, path in zip(
        shared_layout.packs(type_spec), paths[num_alone:], strict=True
      ):
        counts = _packed([tensors[place] for place in places], path)
        for place, count in zip(places, tf.unstack(counts), strict=True):
          tensors[place] = tensors[place][count:]
        about_packs += [tf.identity(path), counts]
      remaining = iter(paths)
      written = [
        _written(tensor, next(remaining))
        if shared_layout.may_be_large(tensor_type)
        else tf.identity(tensor)
        for tensor, tensor_type in zip(tensors, types, strict=True)
      ]
      return written + about_packs

    return tff.federated_map(write, arg)

  return native.to_native(write_at_server)


@tf.function(autograph=False)
def _packed(tensors: Sequence[tf.Tensor], path: tf.Tensor) -> tf.Tensor:
  """Writes the rows of small tensors to one file, if they are many.

  Returns:
    int64[tensors]: how many rows of each it has written, all or none.
  """
  none = tf.zeros([], tf.int64)
  counts = [
    tf.where(
      shared_layout.is_large(_num_bytes(tensor)),
      none,
      tf.shape(tensor, tf.int64)[0],
    )
    for tensor in tensors
  ]
  rows = tf.concat(
    [t[:count] for t, count in zip(tensors, counts, strict=True)], 0
  )

  def write() -> tf.Tensor:
    with tf.control_dependencies([_write(rows, path)]):
      return tf.stack(counts)

  return tf.cond(
    shared_layout.is_large(_num_bytes(rows)),
    write,
    lambda: tf.stack([none] * len(counts)),
  )


@tf.function(autograph=False)
def _written(tensor: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
  """Returns a tensor, or no row of it, and its rows in a file."""

  def write() -> tf.Tensor:
    with tf.control_dependencies([_write(tensor, path)]):
      return tf.identity(tensor[:0])

  return tf.cond(
    shared_layout.is_large(_num_bytes(tensor)),
    write,
    lambda: tf.identity(tensor),
  )


def _write(tensor: tf.Tensor, path: tf.Tensor) -> tf.Operation:
  return tf.io.write_file(path, tf.io.serialize_tensor(tensor))


def _num_bytes(tensor: tf.Tensor) -> tf.Tensor:
  return tf.size(tensor, tf.int64) * tensor.dtype.size
