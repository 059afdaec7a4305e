"""Values in a portable form, which Dask pickles and moves.

A structure is a list of its parts, a value of clients a list of their values, a
tensor an array, and a dataset the message that TFF makes of it. The type says
the rest: names, and the containers in which TFF returns structures.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import values

# Datasets of clients that a worker keeps. One that comes again need not be
# built again, and the worker's own runtime knows it.
_MOST_DATASETS = 256


@dataclasses.dataclass(frozen=True)
class DataAtWorker:
  """Stands for a client's dataset, which the worker builds.

  So data never pass through the program.

  Attributes:
    build: From a client's id to its dataset. It can be pickled and hashed.
    client_id: The client's id.
  """

  build: Callable[[int], tf.data.Dataset]
  client_id: int


@dataclasses.dataclass(frozen=True)
class _Dataset:
  """A dataset by its graph."""

  graph: bytes


# Those of a cohort that comes again.
_messages: weakref.WeakKeyDictionary[tf.data.Dataset, _Dataset] = (
  weakref.WeakKeyDictionary()
)


def portable(value: Any, type_spec: tff.Type) -> Any:
  """Returns the portable form of a value."""
  if isinstance(type_spec, tff.FederatedType):
    if type_spec.all_equal:
      return portable(value, type_spec.member)
    return [portable(member, type_spec.member) for member in value]
  if isinstance(type_spec, tff.StructType):
    parts = tff.structure.from_container(value)
    if len(parts) != len(type_spec):
      raise TypeError(f"Expected a value of type {type_spec}, found {value!r}.")
    return [
      portable(part, part_type)
      for part, part_type in zip(parts, type_spec, strict=True)
    ]
  if isinstance(type_spec, tff.SequenceType):
    return _portable_sequence(value, type_spec)
  is_eager = isinstance(value, tf.Tensor | tf.Variable)
  return value.numpy() if is_eager else value


def structured(value: Any, type_spec: tff.Type) -> Any:
  """Returns a value as a context takes it, from its portable form."""
  return _structured(value, type_spec, _serialized)


def in_containers(value: Any, type_spec: tff.Type) -> Any:
  """Returns a value as contexts return it, from its portable form."""
  return tff.types.type_to_py_container(
    _structured(value, type_spec, _deserialized), type_spec
  )


def _structured(
  value: Any,
  type_spec: tff.Type,
  of_dataset: Callable[[bytes, tff.SequenceType], Any],
) -> Any:
  if isinstance(type_spec, tff.FederatedType):
    if type_spec.all_equal:
      return _structured(value, type_spec.member, of_dataset)
    return [_structured(v, type_spec.member, of_dataset) for v in value]
  if isinstance(type_spec, tff.StructType):
    return tff.structure.Struct(
      (name, _structured(part, part_type, of_dataset))
      for (name, part_type), part in zip(
        tff.structure.iter_elements(type_spec), value, strict=True
      )
    )
  if isinstance(value, DataAtWorker):
    return _built(value)
  if isinstance(value, _Dataset):
    return of_dataset(value.graph, type_spec)
  return value


def _serialized(
  graph: bytes, type_spec: tff.SequenceType
) -> values.SerializedData:
  # To make a dataset of it, which no code reads, takes 15 ms.
  del type_spec
  return values.SerializedData(graph)


def _deserialized(graph: bytes, type_spec: tff.SequenceType) -> Any:
  return values.returned(values.SerializedData(graph), type_spec)


def _portable_sequence(value: Any, type_spec: tff.SequenceType) -> Any:
  if isinstance(value, DataAtWorker):
    return value
  if isinstance(value, values.SerializedData):
    return _Dataset(value.graph)
  if not isinstance(value, tf.data.Dataset):  # A list of elements.
    return _message(list(value), type_spec)
  if value not in _messages:
    _messages[value] = _message(value, type_spec)
  return _messages[value]


def _message(value: Any, type_spec: tff.SequenceType) -> _Dataset:
  return _Dataset(values.serialized_list(value, type_spec))


@functools.lru_cache(_MOST_DATASETS)
def _built(data: DataAtWorker) -> tf.data.Dataset:
  return data.build(data.client_id)
