"""Arguments of calls, which executors send value by value.

TFF sends a structure within an argument in one message. Then nothing in it is
known from before, and no large array of it is shared.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import sending


class Argument(tff.framework.Ingestable, tff.framework.CardinalityCarrying):
  """A value, or a structure of values, that goes to each worker once.

  A worker keeps it as long as this object lives.

  Attributes:
    value: The value, as it was given.
  """

  def __init__(self, value: Any, type_spec: tff.Type) -> None:
    """Takes the value.

    Args:
      value: As TFF's contexts take it, as `SendingExecutor.keep` returns it, an
        `Argument`, or a `Struct` of such.
      type_spec: Its type.
    """
    self.value = value
    self._type_spec = type_spec
    self._sent: weakref.WeakKeyDictionary[Any, Any] = (
      weakref.WeakKeyDictionary()
    )

  @property
  def type_signature(self) -> tff.Type:
    """The type of the value."""
    return self._type_spec

  @property
  def cardinality(self) -> Mapping[Any, int]:
    """The number of clients that the value is of, if it is of any."""
    if _is_structure(self.value, self._type_spec):
      found: dict[Any, int] = {}
      for value, type_spec in zip(self.value, self._type_spec, strict=True):
        found |= of(value, type_spec).cardinality
      return found
    if is_at_clients(self._type_spec):
      return {tff.CLIENTS: len(self.value)}
    return {}

  def fetch(self) -> Any:
    """Returns the value as TFF's contexts return results."""
    value = self.value
    if isinstance(value, sending.Kept):
      value = value.value()
    return tff.tensorflow.transform_result(
      tff.types.type_to_py_container(value, self._type_spec)
    )

  async def ingest(self, executor: Any) -> Any:
    """Returns the value in the worker of an executor."""
    if executor not in self._sent:
      self._sent[executor] = await self._send(executor)
    return self._sent[executor]

  async def _send(self, executor: Any) -> Any:
    if isinstance(self.value, sending.Kept):
      return await executor.create_value(self.value, self._type_spec)
    if not _is_structure(self.value, self._type_spec):
      # As TFF's contexts do with what a user gave.
      value = tff.tensorflow.transform_args(self.value)
      return await executor.create_value(value, self._type_spec)
    elements = []
    for value, (name, type_spec) in zip(
      self.value, tff.structure.iter_elements(self._type_spec), strict=True
    ):
      elements.append((name, await of(value, type_spec).ingest(executor)))
    return await executor.create_struct(tff.structure.Struct(elements))


def of(value: Any, type_spec: tff.Type) -> Argument:
  """Returns a value as an argument, which it may be already."""
  return value if isinstance(value, Argument) else Argument(value, type_spec)


def of_call(comp: tff.Computation, args: Sequence[Any]) -> Any:
  """Returns the argument of a computation, as TFF's contexts take it.

  Args:
    comp: One of a `cohort_cuts.Phase`.
    args: One for each element of its parameter; see `part_by_part.Engine`.
  """
  parameter = comp.type_signature.parameter
  types = [parameter] if len(args) == 1 else parameter
  return joined([of(*given) for given in zip(args, types, strict=True)])


def joined(args: Sequence[Any]) -> Any:
  """Returns the argument of a computation of these; `None` if there is none."""
  if len(args) > 1:
    return tff.structure.Struct.unnamed(*args)
  return args[0] if args else None


def _is_structure(value: Any, type_spec: tff.Type) -> bool:
  return isinstance(type_spec, tff.StructType) and isinstance(
    value, tff.structure.Struct
  )


def is_at_clients(type_spec: tff.Type) -> bool:
  """Returns whether a value of a type is one for each client."""
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and not type_spec.all_equal
  )
