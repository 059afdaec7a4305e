"""Which tensors of a value at the server are in files, and in which.

A large tensor has a file of its own. Many small ones of the same type, which
are large together, are a pack: their rows are in one file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_fair.runtime import shared_memory

# Arrays of 4 MB and less travel as fast in messages.
_LEAST_BYTES = 6 * 2**20
# TensorFlow writes no larger ones in one piece.
_MOST_BYTES = 2**31 - 2**10
# A tensor with smaller rows, whose number is unknown, is taken for small: to
# ask for its size would take longer.
_LEAST_ROW_BYTES = 2**16
# Types whose packs are known, for executors to come.
_MOST_TYPES = 32


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
