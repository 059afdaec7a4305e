"""Converts compiled computations to file content, and back.

An entry is a zip file with two members for each computation: the TFF message,
and the Python containers of its type as JSON. Reading an entry does not execute
code. The checksums of the zip file reveal damage.
"""

from __future__ import annotations

import collections
import functools
import importlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import tensorflow_federated as tff

from tff_fair.runtime import native

_CONTAINERS = ".json"

# TFF's messages keep the types of tensors and the names of fields, but drop a
# structure's container, such as a list or `LearningAlgorithmState`. A process
# returns its results in these containers, and the layout of checkpoints depends
# on them. So an entry lists the names of a type's containers; a container comes
# before those inside it.
Containers: TypeAlias = Sequence[str | None]

_BUILT_IN: dict[str, type[object]] = {
  c.__name__: c for c in (list, tuple, dict, collections.OrderedDict)
}
# An entry may name only classes of these packages; `read` imports no other
# packages.
_PACKAGES = ("tensorflow_federated", "tff_fair")


class NotSerializableError(ValueError):
  """Computations would change when written and read back."""


def write(computations: Mapping[str, native.NativeComputation]) -> bytes:
  """Returns the content of a file with computations."""
  types = {name: comp.type_signature for name, comp in computations.items()}
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    for name, comp in computations.items():
      members: dict[str, bytes | str] = {
        name: comp.content(),
        f"{name}{_CONTAINERS}": json.dumps(_containers_of(types[name])),
      }
      for member, data in members.items():
        # No timestamps: equal computations give equal files.
        archive.writestr(
          zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED, compresslevel=1
        )
  content = buffer.getvalue()
  if {name: c.type_signature for name, c in read(content).items()} != types:
    raise NotSerializableError("Not all types come back as they are.")
  return content


def read(content: bytes) -> dict[str, native.NativeComputation]:
  """Returns the computations in the content of a file."""
  with zipfile.ZipFile(io.BytesIO(content)) as archive:
    return {
      name: native.NativeComputation.read(
        archive.read(name),
        functools.partial(
          _with_containers,
          containers=iter(json.loads(archive.read(f"{name}{_CONTAINERS}"))),
        ),
      )
      for name in archive.namelist()
      if not name.endswith(_CONTAINERS)
    }


def _containers_of(type_spec: tff.Type) -> Containers:
  """Returns the names of a type's containers, the outermost container first."""
  is_structure = isinstance(type_spec, tff.StructType)
  outer = [_name(type_spec.python_container)] if is_structure else []
  inner = [n for part in type_spec.children() for n in _containers_of(part)]
  return [*outer, *inner]


def _with_containers(
  type_spec: tff.Type, containers: Iterator[str | None]
) -> tff.Type:
  """Returns a type with the Python containers that `containers` names."""

  def convert(part: tff.Type) -> tff.Type:
    return _with_containers(part, containers)

  match type_spec:
    case tff.StructType():
      name = next(containers)
      elements = [
        (n, convert(t)) for n, t in tff.structure.iter_elements(type_spec)
      ]
      if name is None:
        return tff.StructType(elements)
      return tff.StructWithPythonType(elements, _container(name))
    case tff.FunctionType():
      parameter = type_spec.parameter
      return tff.FunctionType(
        None if parameter is None else convert(parameter),
        convert(type_spec.result),
      )
    case tff.FederatedType():
      return tff.FederatedType(
        convert(type_spec.member), type_spec.placement, type_spec.all_equal
      )
    case tff.SequenceType():
      return tff.SequenceType(convert(type_spec.element))
  return type_spec


def _name(container: type[object] | None) -> str | None:
  if container is None:
    return None
  if container in _BUILT_IN.values():
    return container.__name__
  name = f"{container.__module__}:{container.__qualname__}"
  if _container(name) is not container:
    raise NotSerializableError(f"There is another class by the name {name}.")
  return name


def _container(name: object) -> type[object]:
  """Returns the class called `name`, which must be a container of fields."""
  if name in _BUILT_IN:
    return _BUILT_IN[str(name)]
  module, _, attribute = str(name).partition(":")
  if module.split(".")[0] in _PACKAGES:
    found = getattr(importlib.import_module(module), attribute, None)
    if isinstance(found, type) and (
      hasattr(found, "__attrs_attrs__")
      or (issubclass(found, tuple) and hasattr(found, "_fields"))
    ):
      return found
  raise NotSerializableError(f"{name!r} is not a container of TFF's or ours.")
