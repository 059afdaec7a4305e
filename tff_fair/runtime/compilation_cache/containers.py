"""The Python containers of a type, as plain values.

TFF's messages keep the types of tensors and the names of fields, and drop the
container of a structure: a list, say, or `LearningAlgorithmState`. A process
returns its results in these containers, and checkpoints follow from them.
"""

from __future__ import annotations

import collections
import importlib
from typing import TypeAlias

import tensorflow_federated as tff

# `None`, or for a structure its container and those of its elements; for a
# function those of its parameter and its result.
Containers: TypeAlias = "str | list[Containers] | None"

_BUILT_IN: dict[str, type[object]] = {
  c.__name__: c for c in (list, tuple, dict, collections.OrderedDict)
}
# Whose classes a file may name: no other modules are imported for it.
_PACKAGES = ("tensorflow_federated", "tff_fair")


def of_type(type_spec: tff.Type | None) -> Containers:
  """Returns the containers in a type.

  Raises:
    ValueError: If there is one that `with_containers` would not find again.
  """
  match type_spec:
    case tff.StructType():
      parts = [of_type(t) for _, t in tff.structure.iter_elements(type_spec)]
      return [_name(type_spec.python_container), *parts]
    case tff.FunctionType():
      return [of_type(type_spec.parameter), of_type(type_spec.result)]
    case tff.FederatedType():
      return of_type(type_spec.member)
    case tff.SequenceType():
      return of_type(type_spec.element)
  return None


def with_containers(type_spec: tff.Type, containers: Containers) -> tff.Type:
  """Returns a type with the containers of another that equals it otherwise.

  Args:
    type_spec: A type without containers.
    containers: As `of_type` returns them.

  Raises:
    ValueError: If they do not belong to the type.
  """
  match type_spec, containers:
    case tff.StructType(), [name, *parts]:
      elements = [
        (n, with_containers(t, c))
        for (n, t), c in zip(
          tff.structure.iter_elements(type_spec), parts, strict=True
        )
      ]
      if name is None:
        return tff.StructType(elements)
      return tff.StructWithPythonType(elements, _container(name))
    case tff.FunctionType(), [parameter, result]:
      return tff.FunctionType(
        None
        if type_spec.parameter is None
        else with_containers(type_spec.parameter, parameter),
        with_containers(type_spec.result, result),
      )
    case tff.FederatedType(), _:
      return tff.FederatedType(
        with_containers(type_spec.member, containers),
        type_spec.placement,
        type_spec.all_equal,
      )
    case tff.SequenceType(), _:
      return tff.SequenceType(with_containers(type_spec.element, containers))
    case _, None:
      return type_spec
  raise ValueError(f"{containers!r} are no containers of {type_spec}.")


def _name(container: type[object] | None) -> str | None:
  if container is None:
    return None
  if container in _BUILT_IN.values():
    return container.__name__
  name = f"{container.__module__}:{container.__qualname__}"
  if _container(name) is not container:
    raise ValueError(f"There is another class by the name {name}.")
  return name


def _container(name: object) -> type[object]:
  """Returns a class that holds fields and does nothing else.

  Raises:
    ValueError: If there is none by that name.
  """
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
  raise ValueError(f"{name!r} is no container of TFF's or ours.")
