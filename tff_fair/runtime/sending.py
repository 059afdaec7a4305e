"""A remote executor that writes each value straight into its message.

TFF makes the message of a value from those of its parts, and copies them at
each level. For a state of some megabytes, these copies take most of the time.
"""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, example_files, private_tff
from tff_fair.runtime.one_graph import client_values
from tff_fair.runtime.private_tff import executor_pb2


@dataclasses.dataclass(frozen=True)
class Kept:
  """A value of a worker, which goes there again.

  Attributes:
    message: The value as it came.
    type_spec: Its type.
  """

  message: executor_pb2.Value
  type_spec: tff.Type

  def value(self) -> Any:
    """Returns the value as executors return it."""
    return read(self.message, self.type_spec)


class SendingExecutor(tff.framework.RemoteExecutor):
  """Sends the same messages as `tff.framework.RemoteExecutor`."""

  async def create_value(
    self, value: Any, type_spec: tff.Type | None = None
  ) -> Any:
    """Sends a value, or what `keep` returned; returns it in the worker."""
    if isinstance(value, Kept):
      request = private_tff.new_request(self)
      request.value.CopyFrom(value.message)
      return private_tff.send(self, request, type_spec)
    if isinstance(value, tff.Computation) or (
      private_tff.streams_structs(self)
      and isinstance(type_spec, tff.StructType)
    ):
      return await super().create_value(value, type_spec)
    request = private_tff.new_request(self)
    write(request.value, value, tff.to_type(type_spec))
    return private_tff.send(self, request, type_spec)

  async def _compute(self, value_ref: Any, type_spec: tff.Type) -> Any:
    """Returns a value of the worker."""
    if private_tff.streams_structs(self):
      return await super()._compute(value_ref, type_spec)
    return read(private_tff.fetch(self, value_ref), type_spec)

  async def keep(self, value: Any) -> Any:
    """Returns a value of the worker for `create_value`, of any executor.

    As a message it is neither taken apart here nor put together again.
    """
    if private_tff.streams_structs(self):
      return await value.compute()
    return Kept(private_tff.fetch(self, value.reference), value.type_signature)


def read(message: executor_pb2.Value, type_spec: tff.Type) -> Any:
  """Returns a value as executors return it, read from its message.

  TFF makes the types of all parts anew, and looks whether they fit.

  Args:
    message: The value.
    type_spec: Its type.
  """
  if isinstance(type_spec, tff.FederatedType) and message.federated.value:
    members = message.federated.value
    if type_spec.all_equal:
      return read(members[0], type_spec.member)
    return [read(member, type_spec.member) for member in members]
  if isinstance(type_spec, tff.StructType):
    return tff.structure.Struct(
      (element.name or None, read(element.value, element_type))
      for element, element_type in zip(
        message.struct.element, type_spec, strict=True
      )
    )
  return tff.framework.deserialize_value(message, type_spec)[0]


def write(message: executor_pb2.Value, value: Any, type_spec: tff.Type) -> None:
  """Writes a value into an empty message.

  Args:
    message: Where it goes.
    value: As TFF's contexts take it.
    type_spec: Its type.

  Raises:
    TypeError: If the value is not of the type.
  """
  if isinstance(type_spec, tff.FederatedType):
    _write_federated(message, value, type_spec)
  elif isinstance(value, client_values.ClientValues):
    _write_client_values(message, value, type_spec)
  elif isinstance(type_spec, tff.StructType):
    _write_struct(message, value, type_spec)
  elif admission.is_plain_array(value, type_spec) and value.ndim > 0:
    _write_array(message, value)
  elif (
    isinstance(value, example_files.KnownGraph)
    and isinstance(type_spec, tff.SequenceType)
    and type_spec.element.is_assignable_from(value.element_type)
  ):
    _write_graph(message, value)
  else:
    _write_by_tff(message, value, type_spec)


def _write_federated(
  message: executor_pb2.Value, value: Any, type_spec: tff.FederatedType
) -> None:
  members = [value] if type_spec.all_equal else value
  if not isinstance(members, list):
    _write_by_tff(message, value, type_spec)
    return
  message.federated.type.CopyFrom(tff.types.serialize_type(type_spec).federated)
  for member in members:
    write(message.federated.value.add(), member, type_spec.member)


def _write_client_values(
  message: executor_pb2.Value,
  values: client_values.ClientValues,
  type_spec: tff.StructType,
) -> None:
  for column, column_type in zip(values.sent(), type_spec, strict=True):
    part = message.struct.element.add().value
    if isinstance(column, np.ndarray):
      write(part, column, column_type)
    else:
      text_type = tff.types.serialize_type(column_type).tensor
      part.array.dtype = text_type.dtype
      part.array.shape.dim.append(len(column))
      part.array.string_list.value.extend(column)


def _write_struct(
  message: executor_pb2.Value, value: Any, type_spec: tff.StructType
) -> None:
  values = tff.structure.from_container(value)
  if len(values) != len(type_spec):
    _write_by_tff(message, value, type_spec)
    return
  message.struct.SetInParent()  # Also without elements.
  for (name, member_type), member in zip(
    tff.structure.iter_elements(type_spec), values, strict=True
  ):
    element = message.struct.element.add()
    if name is not None:
      element.name = name
    write(element.value, member, member_type)


def _write_array(message: executor_pb2.Value, value: np.ndarray) -> None:
  found = tff.types.serialize_type(
    tff.TensorType(value.dtype.type, value.shape)
  )
  message.array.dtype = found.tensor.dtype
  message.array.shape.dim.extend(value.shape)
  message.array.content = value.tobytes()


def _write_graph(
  message: executor_pb2.Value, value: example_files.KnownGraph
) -> None:
  message.sequence.serialized_graph_def = value.serialized_graph
  message.sequence.element_type.CopyFrom(
    tff.types.serialize_type(value.element_type)
  )


def _write_by_tff(
  message: executor_pb2.Value, value: Any, type_spec: tff.Type
) -> None:
  try:
    message.CopyFrom(tff.framework.serialize_value(value, type_spec)[0])
  except (TypeError, ValueError) as error:
    if not isinstance(type_spec, tff.SequenceType) or (
      isinstance(error, ValueError) and "OrderedDict" not in str(error)
    ):
      raise
    raise TypeError(_expected_data(value, type_spec.element)) from error


def _expected_data(value: Any, expected: tff.Type) -> str:
  """Returns a sentence about a value that is no dataset of the right type."""
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
  """Returns a type in the notation of TFF, where it has one."""
  if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
    return str(spec)
  return str(tff.TensorType(spec.dtype.as_numpy_dtype, spec.shape))
