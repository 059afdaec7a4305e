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

from tff_fair.runtime import native, shared_memory

# Arrays of 4 MB and less travel as fast in messages.
_LEAST_BYTES = 6 * 2**20
# TensorFlow writes no larger ones in one piece.
_MOST_BYTES = 2**31 - 2**10
# A tensor with smaller rows, whose number is unknown, is taken for small: to
# ask for its size would take longer.
_LEAST_ROW_BYTES = 2**16
# Types whose packs and computations are kept, for executors to come.
_MOST_TYPES = 32


def is_at_server(type_spec: tff.Type) -> bool:
  """Returns whether all values of a type are tensors at the server."""
  if isinstance(type_spec, tff.StructType):
    return len(type_spec) > 0 and all(map(is_at_server, type_spec))
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.SERVER
    and tff.types.is_structure_of_tensors(type_spec.member)
  )


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


@functools.lru_cache(_MOST_TYPES)
def packs(type_spec: tff.Type) -> Sequence[Sequence[int]]:
  """Returns which tensors of a result may share one file, by their places.

  Stacked updates are dozens of tensors. Most have a row or none, and are too
  small for a file of their own.
  """
  by_type: dict[tff.TensorType, list[int]] = {}
  for place, tensor_type in enumerate(tensor_types(type_spec)):
    if may_be_large(tensor_type) and tensor_type.shape[0] is None:
      by_type.setdefault(tensor_type, []).append(place)
  return [places for places in by_type.values() if len(places) > 1]


@functools.lru_cache(_MOST_TYPES)
def may_have_file(type_spec: tff.Type) -> Sequence[bool]:
  """Returns which leaves may be in files; see `shared_tensors.build_writer`."""
  of_tensors = [*map(may_be_large, tensor_types(type_spec))]
  return [*of_tensors, *[True, False] * len(packs(type_spec))]


def pack_types(type_spec: tff.Type) -> Sequence[tff.TensorType]:
  """Returns the types of the leaves that describe packs: paths and counts."""
  return [
    leaf_type
    for places in packs(type_spec)
    for leaf_type in (
      tff.TensorType(np.str_),
      tff.TensorType(np.int64, [len(places)]),
    )
  ]


def packs_in(
  type_spec: tff.Type, shared: Sequence[bool]
) -> Iterator[tuple[Sequence[int], int]]:
  """Returns the packs that are in files, and where their leaves begin."""
  start = sum(1 for _ in tensor_types(type_spec))
  for places in packs(type_spec):
    if start < len(shared) and shared[start]:
      yield places, start
    start += 2


def unpacked(
  leaves: Sequence[Any],
  files: Sequence[shared_memory.SharedFile | None],
  type_spec: tff.Type,
) -> Sequence[Any]:
  """Returns the tensors of a value, those in files as views of these.

  Args:
    leaves: What the computation of `shared_tensors.build_writer` returned.
    files: For each leaf its file, if it has one.
    type_spec: The type of the value.
  """
  types = [*tensor_types(type_spec)]
  tensors = [
    leaf if file is None else file.read(tensor_type.dtype, tensor_type.shape)
    for leaf, file, tensor_type in zip(leaves, files, types, strict=False)
  ]
  for places, start in packs_in(
    type_spec, [file is not None for file in files]
  ):
    file, tensor_type = files[start], types[places[0]]
    assert file is not None
    rows = file.read(tensor_type.dtype, tensor_type.shape)
    split = np.split(rows, np.cumsum(leaves[start + 1])[:-1])
    for place, tensor in zip(places, split, strict=True):
      if files[place] is None:
        tensors[place] = tensor
  return tensors


@functools.lru_cache(_MOST_TYPES)
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
  types = [*tensor_types(type_spec)]
  leaf_types = [
    tff.TensorType(np.str_) if is_shared else leaf_type
    for is_shared, leaf_type in zip(
      shared, [*types, *pack_types(type_spec)], strict=False
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
    for places, start in packs_in(type_spec, shared):
      rows = _read(leaves[start], types[places[0]])
      split = tf.split(rows, leaves[start + 1], num=len(places))
      for place, tensor in zip(places, split, strict=True):
        if not shared[place]:
          tensors[place] = tf.ensure_shape(tensor, types[place].shape)
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


@functools.lru_cache(_MOST_TYPES)
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
  types = [*tensor_types(type_spec)]
  paths_type = tff.FederatedType(
    [tff.TensorType(np.str_)] * sum(may_have_file(type_spec)),
    tff.SERVER,
  )

  @tff.federated_computation(type_spec, paths_type)
  def write_at_server(value: tff.Value, paths: tff.Value) -> tff.Value:
    arg = tff.federated_zip((value, paths))

    @tff.tensorflow.computation(arg.type_signature.member)
    def write(value: Any, paths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
      tensors = [*leaves(value, arg.type_signature.member[0])]
      num_alone = sum(map(may_be_large, types))
      about_packs = []
      for places, path in zip(packs(type_spec), paths[num_alone:], strict=True):
        counts = _packed([tensors[place] for place in places], path)
        for place, count in zip(places, tf.unstack(counts), strict=True):
          tensors[place] = tensors[place][count:]
        about_packs += [tf.identity(path), counts]
      remaining = iter(paths)
      written = [
        _written(tensor, next(remaining))
        if may_be_large(tensor_type)
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
      is_large(_num_bytes(tensor)),
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
    is_large(_num_bytes(rows)),
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
    is_large(_num_bytes(tensor)),
    write,
    lambda: tf.identity(tensor),
  )


def _write(tensor: tf.Tensor, path: tf.Tensor) -> tf.Operation:
  return tf.io.write_file(path, tf.io.serialize_tensor(tensor))


def _num_bytes(tensor: tf.Tensor) -> tf.Tensor:
  return tf.size(tensor, tf.int64) * tensor.dtype.size
