"""Computations that read and write the large tensors of values at the server.

The rest of a value goes through them as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import native

# Arrays of 4 MB and less travel as fast in messages.
_LEAST_BYTES = 6 * 2**20
# TensorFlow writes no larger ones in one piece.
_MOST_BYTES = 2**31 - 2**10
# Tensors with smaller rows, of which nobody knows the number, are taken for
# small: to ask for their size would take longer.
_LEAST_ROW_BYTES = 2**16
# Computations that are kept, for executors to come; each is small.
_MOST_COMPUTATIONS = 32


def is_at_server(type_spec: tff.Type) -> bool:
  """Returns whether all values of a type are tensors at the server."""
  if isinstance(type_spec, tff.StructType):
    return len(type_spec) > 0 and all(map(is_at_server, type_spec))
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.SERVER
    and _is_of_tensors(type_spec.member)
  )


def _is_of_tensors(type_spec: tff.Type) -> bool:
  if isinstance(type_spec, tff.StructType):
    return all(map(_is_of_tensors, type_spec))
  return isinstance(type_spec, tff.TensorType)


def tensor_types(type_spec: tff.Type) -> Iterator[tff.TensorType]:
  """Returns the types of all tensors, in the order of the structure."""
  if isinstance(type_spec, tff.TensorType):
    yield type_spec
  elif isinstance(type_spec, tff.FederatedType):
    yield from tensor_types(type_spec.member)
  else:
    for element in type_spec:
      yield from tensor_types(element)


def leaves(value: Any, type_spec: tff.Type) -> Iterator[Any]:
  """Returns all tensors of a value, in the order of `tensor_types`.

  Raises:
    TypeError: If the value does not have the structure of the type.
  """
  if isinstance(type_spec, tff.StructType):
    elements = tff.structure.from_container(value)
    if len(elements) != len(type_spec):
      raise TypeError(f"Expected {type_spec}, found {len(elements)} elements.")
    for element, element_type in zip(elements, type_spec, strict=True):
      yield from leaves(element, element_type)
  else:
    yield value


def structured(tensors: Iterator[Any], type_spec: tff.Type) -> Any:
  """Returns the value that has these tensors, in the structure of a type."""
  if isinstance(type_spec, tff.FederatedType):
    return structured(tensors, type_spec.member)
  if isinstance(type_spec, tff.StructType):
    return tff.structure.Struct(
      (name, structured(tensors, element))
      for name, element in tff.structure.iter_elements(type_spec)
    )
  return next(tensors)


def is_large(num_bytes: Any) -> Any:
  """Returns whether a tensor of so many bytes, or int64[], goes by a file."""
  return (num_bytes >= _LEAST_BYTES) & (num_bytes <= _MOST_BYTES)


def may_be_large(tensor_type: tff.TensorType) -> bool:
  """Returns whether a tensor of a result may be worth sharing.

  Its rows, of which the number may be unknown, must tell where they begin.
  """
  shape, dtype = tensor_type.shape, np.dtype(tensor_type.dtype)
  if not shape or not issubclass(dtype.type, (np.number, np.bool_)):
    return False
  if None in shape[1:]:
    return False
  row_bytes = dtype.itemsize * int(np.prod(shape[1:]))
  if shape[0] is None:
    return row_bytes >= _LEAST_ROW_BYTES
  return bool(is_large(shape[0] * row_bytes))


@functools.lru_cache(_MOST_COMPUTATIONS)
def num_large(type_spec: tff.Type) -> int:
  """Returns how many tensors of a result may be worth sharing."""
  return sum(map(may_be_large, tensor_types(type_spec)))


@functools.lru_cache(_MOST_COMPUTATIONS)
def build_reader(
  type_spec: tff.FederatedType, shared: tuple[bool, ...]
) -> tff.Computation:
  """Builds the computation that reads the large tensors of a value.

  Args:
    type_spec: The type of the value, at the server.
    shared: Which of its tensors are in files.

  Returns:
    A `tff.Computation` from the flat list of its tensors, with paths in place
    of those in files, to the value.
  """
  types = [*tensor_types(type_spec)]
  parameter = [
    tff.TensorType(np.str_) if is_shared else tensor_type
    for is_shared, tensor_type in zip(shared, types, strict=True)
  ]

  @tff.tensorflow.computation(tff.to_type(parameter))
  def read(leaves: Sequence[tf.Tensor]) -> Any:
    tensors = [
      _read(leaf, tensor_type) if is_shared else tf.identity(leaf)
      for leaf, is_shared, tensor_type in zip(
        leaves, shared, types, strict=True
      )
    ]
    return structured(iter(tensors), type_spec)

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
    A `tff.Computation` from the value, and the paths for those of its tensors
    that may be large, to the flat list of its tensors. It leaves out the rows
    of those that it has written.
  """
  types = [*tensor_types(type_spec)]
  num_paths = sum(map(may_be_large, types))
  paths_type = tff.FederatedType(
    [tff.TensorType(np.str_)] * num_paths, tff.SERVER
  )

  @tff.federated_computation(type_spec, paths_type)
  def write_at_server(value: tff.Value, paths: tff.Value) -> tff.Value:
    arg = tff.federated_zip((value, paths))

    @tff.tensorflow.computation(arg.type_signature.member)
    def write(value: Any, paths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
      remaining = iter(paths)
      return [
        _written(leaf, next(remaining))
        if may_be_large(tensor_type)
        else tf.identity(leaf)
        for leaf, tensor_type in zip(
          leaves(value, arg.type_signature.member[0]),
          types,
          strict=True,
        )
      ]

    return tff.federated_map(write, arg)

  return native.to_native(write_at_server)


@tf.function(autograph=False)
def _written(tensor: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
  """Returns a tensor, or no row of it, and its rows in a file."""

  def write() -> tf.Tensor:
    with tf.control_dependencies(
      [tf.io.write_file(path, tf.io.serialize_tensor(tensor))]
    ):
      return tf.identity(tensor[:0])

  num_bytes = tf.size(tensor, tf.int64) * tensor.dtype.size
  return tf.cond(is_large(num_bytes), write, lambda: tf.identity(tensor))
