"""A remote executor that shares large arrays with its worker.

A worker on this machine reads them from memory that the program shares with it,
and writes those of results there. A message is copied at each step of its way.
An array that the program got from the worker is still in that memory: where the
program sends it again, as it does with a state, it sends the path alone.

A tensor read from memory is computed from its path alone: the worker does not
keep the rounds before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  private_tff,
  resident_values,
  sending,
  shared_memory,
  shared_tensors,
)
from tff_fair.runtime.one_graph import client_values


@dataclasses.dataclass(frozen=True)
class _KeptInFiles(sending.Kept):
  """A value, some of whose tensors are in files.

  Attributes:
    message: The leaves, as the computation of `shared_tensors.build_writer`
      returned them.
    files: For each leaf its file, if it has one.
    leaves_type: The type of the message.
  """

  files: Sequence[shared_memory.SharedFile | None]
  leaves_type: tff.Type

  def value(self) -> Any:
    """Returns the value; its arrays are views of the files."""
    sent = sending.read(self.message, self.leaves_type)
    tensors = shared_tensors.unpacked(sent, self.files, self.type_spec)
    return shared_tensors.structured(iter(tensors), self.type_spec)

  def paths(self) -> sending.Kept:
    """Returns the leaves, with paths in the place of those in files."""
    message = type(self.message)()
    message.CopyFrom(self.message)
    (leaves,) = message.federated.value
    for element, file in zip(leaves.struct.element, self.files, strict=True):
      if file is not None:
        path, _ = tff.framework.serialize_value(
          file.path, tff.TensorType(np.str_)
        )
        element.value.CopyFrom(path)
    return sending.Kept(message, self.leaves_type)


class SharingExecutor(resident_values.ResidentExecutor):
  """Shares the large arrays of values at the server with its worker."""

  def __init__(self, *args: Any, **kwargs: Any) -> None:
    """Takes the arguments of `tff.framework.RemoteExecutor`."""
    super().__init__(*args, **kwargs)
    # Computations in the worker, by the values that they are for.
    self._readers: dict[Any, Any] = {}
    self._writers: dict[tff.Type, Any] = {}

  async def create_value(
    self, value: Any, type_spec: tff.Type | None = None
  ) -> Any:
    """Returns the value in the worker."""
    if isinstance(value, _KeptInFiles):
      return await self._read(value.paths(), value.type_spec, value.files)
    if (
      isinstance(value, (sending.Kept, client_values.ClientValues))
      or not isinstance(type_spec, tff.FederatedType)
      or not shared_tensors.is_at_server(type_spec)
    ):
      return await super().create_value(value, type_spec)
    leaves = [*shared_tensors.leaves(value, type_spec.member)]
    shared = tuple(
      map(_is_large, leaves, shared_tensors.tensor_types(type_spec))
    )
    if not any(shared) or not shared_memory.has_room(sum(shared)):
      return await super().create_value(value, type_spec)
    files = [
      _file_with(leaf) if is_shared else None
      for leaf, is_shared in zip(leaves, shared, strict=True)
    ]
    paths = [
      leaf if file is None else file.path
      for leaf, file in zip(leaves, files, strict=True)
    ]
    return await self._read(paths, type_spec, files)

  async def _read(
    self,
    paths: Any,
    type_spec: tff.FederatedType,
    files: Sequence[shared_memory.SharedFile | None],
  ) -> Any:
    """Returns the value that has some of its tensors in files.

    Args:
      paths: Its tensors, with paths in the place of those in files.
      type_spec: Its type.
      files: For each tensor its file, if it is in one.
    """
    shared = tuple(file is not None for file in files)
    key = (type_spec, shared)
    if key not in self._readers:
      self._readers[key] = await self._send(
        shared_tensors.build_reader(type_spec, shared)
      )
    reader = self._readers[key]
    sent = await super().create_value(paths, reader.type_signature.parameter)
    return _with_files(await super().create_call(reader, sent), files)

  async def create_call(self, comp: Any, arg: Any = None) -> Any:
    """Calls a function; the result keeps the files it is computed from."""
    return _with_files(await super().create_call(comp, arg), _files_of(arg))

  async def create_struct(self, elements: Any) -> Any:
    """Makes a structure, likewise."""
    values = tff.structure.flatten(tff.structure.from_container(elements))
    files = [file for value in values for file in _files_of(value)]
    return _with_files(await super().create_struct(elements), files)

  async def create_selection(self, source: Any, index: int) -> Any:
    """Selects from a structure, likewise."""
    return _with_files(
      await super().create_selection(source, index), _files_of(source)
    )

  async def _compute(self, value_ref: Any, type_spec: tff.Type) -> Any:
    """Returns a value of the worker, as numbers of this program."""
    if not self._shares(type_spec):
      return await super()._compute(value_ref, type_spec)
    return (await self._written(value_ref, type_spec)).value()

  async def _written(self, value_ref: Any, type_spec: tff.Type) -> _KeptInFiles:
    """Returns a value of the worker, its large tensors in files."""
    files = [
      shared_memory.SharedFile() if may_have_file else None
      for may_have_file in shared_tensors.may_have_file(type_spec)
    ]
    if type_spec not in self._writers:
      self._writers[type_spec] = await self._send(
        shared_tensors.build_writer(type_spec)
      )
    writer = self._writers[type_spec]
    paths = await super().create_value(
      [file.path for file in files if file is not None],
      writer.type_signature.parameter[1],
    )
    arg = private_tff.pair(self, value_ref, type_spec, paths)
    written = await super().create_call(writer, arg)
    return _KeptInFiles(
      private_tff.fetch(self, written.reference),
      type_spec,
      [file if file is not None and file.num_bytes else None for file in files],
      written.type_signature,
    )

  async def keep(self, value: Any) -> Any:
    """Returns a value of the worker for `create_value`, as `sending` does."""
    if self._shares(value.type_signature):
      return await self._written(value.reference, value.type_signature)
    return await super().keep(value)

  def _shares(self, type_spec: tff.Type) -> bool:
    """Returns whether arrays of a result may be shared."""
    if private_tff.streams_structs(self) or not shared_tensors.is_at_server(
      type_spec
    ):
      return False
    num_files = sum(shared_tensors.may_have_file(type_spec))
    return num_files > 0 and shared_memory.has_room(num_files)

  async def _send(self, comp: tff.Computation) -> Any:
    """Returns a computation in the worker."""
    return await super().create_value(comp, comp.type_signature)

  def close(self) -> None:
    """Drops the computations, too."""
    self._readers.clear()
    self._writers.clear()
    super().close()


def _is_large(value: Any, tensor_type: tff.TensorType) -> bool:
  """Returns whether a value is an array that is worth sharing."""
  return admission.is_plain_array(
    value, tensor_type
  ) and shared_tensors.is_large(value.nbytes)


def _file_with(array: np.ndarray) -> shared_memory.SharedFile:
  """Returns the file that has an array, which it may be in already."""
  file = shared_memory.file_of(array)
  if file is None:
    file = shared_memory.SharedFile()
    file.write(array)
  return file


def _files_of(*values: Any) -> list[shared_memory.SharedFile]:
  """Returns the files that values of the worker are computed from."""
  return [file for value in values for file in getattr(value, "files", ())]


def _with_files(
  value: Any, files: Sequence[shared_memory.SharedFile | None]
) -> Any:
  """Returns a value of the worker, which keeps files as long as it lives."""
  value.files = [file for file in files if file is not None]
  return value
