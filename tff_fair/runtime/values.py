"""Converts values of computations to the runtime's form, and back.

In the runtime's form, a structure is a tuple, clients' values are a list, and
leaves are arrays, `tf.Tensor`s, `tf.data.Dataset`s, `SerializedData` or
`DataAtWorker`. Only the TFF types have field names and Python containers.
"""

from __future__ import annotations

import dataclasses
import reprlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission

Value: TypeAlias = Any


class TypedValue(NamedTuple):
  """A value in the runtime's form, with its type."""

  value: Value
  type_spec: tff.Type


class SerializedData(NamedTuple):
  """A client's dataset as a serialized graph, as TFF's executors pass it on."""

  graph: bytes


@dataclasses.dataclass(frozen=True)
class DataAtWorker:
  """A placeholder for a client's dataset, which a Dask worker builds.

  So the data never passes through the program.

  Attributes:
    build: Returns the dataset of a client id; must be picklable and hashable.
    client_id: The client's id.
  """

  build: Callable[[int], tf.data.Dataset]
  client_id: int


# For each type, the specs of datasets that match it. They are strings, since a
# spec may be a dictionary, which cannot be hashed.
_known_specs: weakref.WeakKeyDictionary[tff.Type, set[str]] = (
  weakref.WeakKeyDictionary()
)


def _check_spec(dataset: tf.data.Dataset, type_spec: tff.Type) -> None:
  """Raises TFF's error unless the dataset has the type `type_spec`."""
  known = _known_specs.setdefault(type_spec, set())
  spec = repr(dataset.element_spec)
  if spec not in known:
    serialize_list(dataset.take(0), type_spec)
    known.add(spec)


def ingest(value: Any, type_spec: tff.Type) -> Value:
  """Converts a user's value to the runtime's form."""
  if isinstance(value, TypedValue):
    type_spec.check_assignable_from(value.type_spec)
    return value.value
  match type_spec:
    case tff.FederatedType():
      return _federated(value, type_spec)
    case tff.StructType():
      return _struct(value, type_spec)
    case tff.SequenceType():
      return _sequence(value, type_spec)
  return _array(value, type_spec)


def _federated(value: Any, type_spec: tff.FederatedType) -> Value:
  if type_spec.all_equal:
    return ingest(value, type_spec.member)
  if not isinstance(value, (list, tuple)):
    raise TypeError(
      "Expected a list or tuple with a value for each client, found "
      f"{type(value).__name__}: {reprlib.repr(value)}"
    )
  return [ingest(member, type_spec.member) for member in value]


def _array(value: Any, type_spec: tff.Type) -> Any:
  if admission.is_plain_array(value, type_spec):
    return value
  if isinstance(value, (tf.Tensor, tf.Variable)):
    value = value.numpy()
  message, _ = tff.framework.serialize_value(value, type_spec)
  return tff.framework.deserialize_value(message, type_spec)[0]


def _struct(value: Any, type_spec: tff.StructType) -> tuple[Value, ...]:
  members = tff.structure.to_elements(tff.structure.from_container(value))
  types = tff.structure.to_elements(type_spec)
  if len(members) != len(types):
    raise TypeError(
      f"Expected a value of type {type_spec}, found {len(members)} elements: "
      f"{reprlib.repr(value)}"
    )
  if isinstance(value, tff.structure.Struct):
    for (found, _), (expected, _) in zip(members, types, strict=True):
      if found not in (expected, None):
        raise TypeError(f"Expected an element named {expected}, found {found}.")
  return tuple(
    ingest(member, member_type)
    for (_, member), (_, member_type) in zip(members, types, strict=True)
  )


def _sequence(value: Any, type_spec: tff.SequenceType) -> Value:
  if isinstance(value, SerializedData | DataAtWorker):
    return value
  if isinstance(value, tf.data.Dataset):
    _check_spec(value, type_spec)
    return value
  return SerializedData(serialize_list(value, type_spec))


def serialize_list(value: Any, type_spec: tff.SequenceType) -> bytes:
  """Returns TFF's serialized graph of a dataset, or of a list of elements."""
  try:
    message, _ = tff.framework.serialize_value(value, type_spec)
  except (TypeError, ValueError) as error:
    if isinstance(error, ValueError) and "OrderedDict" not in str(error):
      raise
    raise TypeError(_expected_data(value, type_spec.element)) from error
  return bytes(message.sequence.serialized_graph_def)


def serialize(data: Value) -> bytes:
  """Returns the serialized graph of a dataset."""
  if isinstance(data, SerializedData):
    return data.graph
  variant = tf.data.experimental.to_variant(data)
  # TFF uses this operation, too.
  return bytes(tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy())


def to_structs(value: Value, type_spec: tff.Type) -> Any:
  """Converts a value to the form of TFF's results, with `Struct` containers."""
  if isinstance(type_spec, tff.FederatedType):
    if type_spec.all_equal:
      return to_structs(value, type_spec.member)
    if not value:  # TFF raises an error, too.
      raise ValueError("The result is at the clients, but there are none.")
    return [to_structs(member, type_spec.member) for member in value]
  if isinstance(type_spec, tff.StructType):
    return tff.structure.Struct(
      (name, to_structs(member, member_type))
      for (name, member_type), member in zip(
        tff.structure.iter_elements(type_spec), value, strict=True
      )
    )
  if isinstance(type_spec, tff.SequenceType):
    # Without an element type in the message, TFF uses that of `type_spec`.
    other, _ = tff.framework.serialize_value(0, tff.TensorType(np.int32))
    message = type(other)()
    message.sequence.serialized_graph_def = serialize(value)
    return tff.framework.deserialize_value(message, type_spec)[0]
  if not isinstance(value, bytes):  # NumPy would drop trailing zeros.
    value = np.asarray(value)[()]
  if isinstance(value, np.ndarray):
    # As in TFF, since the array may share a tensor's memory.
    value.flags.writeable = False
  return value


def to_containers(value: Value, type_spec: tff.Type) -> Any:
  """Converts a value to the form of TFF's results, in its type's containers."""
  found = to_structs(value, type_spec)
  return tff.tensorflow.transform_result(
    tff.types.type_to_py_container(found, type_spec)
  )


def placed_parts(
  value: Value, type_spec: tff.Type | None
) -> Iterator[tuple[Value, tff.Type]]:
  """Yields the values inside an argument's structures, each with its type."""
  if isinstance(type_spec, tff.StructType):
    for member, member_type in zip(value, type_spec, strict=True):
      yield from placed_parts(member, member_type)
  elif type_spec is not None:
    yield value, type_spec


def num_clients(parts: Iterable[tuple[Value, tff.Type]]) -> int | None:
  """Returns the number of clients; `None` if no part is at clients."""
  found = {len(part) for part, part_type in parts if is_at_clients(part_type)}
  if len(found) > 1:
    raise ValueError(
      f"Expected values of the same number of clients, found {sorted(found)}."
    )
  return found.pop() if found else None


def is_at_clients(type_spec: tff.Type) -> bool:
  """Returns whether a type has a separate value for each client."""
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and not type_spec.all_equal
  )


def _expected_data(value: Any, expected: tff.Type) -> str:
  """Returns the error text for a value that is not data of type `expected`."""
  found = f"{type(value).__name__}: {reprlib.repr(value)}"
  if isinstance(value, tf.data.Dataset):
    found = f"one of {tf.nest.map_structure(_in_short, value.element_spec)}"
  advice = ""
  if isinstance(expected, tff.StructType):
    members = [*tff.structure.iter_elements(expected)]
    if len(members) == 2 and members[0] == (None, tff.TensorType(np.int64)):
      advice = (
        " Make it with tff_fair.client_dataset(client_id, batches), where "
        f"`batches` has elements of type {members[1][1]}."
      )
  return (
    "Expected the data of a client as a tf.data.Dataset with elements of type "
    f"{expected}, found {found}.{advice} Dataset.batch makes batches; in "
    "Dataset.map, tf.cast changes a dtype, and a collections.OrderedDict or a "
    "tuple the structure."
  )


def _in_short(spec: tf.TypeSpec) -> str:
  """Returns a spec in TFF's notation if possible, else in TensorFlow's."""
  if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
    return str(spec)
  return str(tff.TensorType(spec.dtype.as_numpy_dtype, spec.shape))
