"""Values that a worker returned and still has, for when they come back.

A round's state goes back into the next round, mostly as it came. It is known by
the identity of its arrays: TFF returns them read-only, so that they are what
they were.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

# States of as many processes in turn, and what is worth the calls it takes.
_MOST_RESULTS = 16
_LEAST_BYTES = 2**16


class ReturnedValues:
  """The large values at the server among the last results of calls."""

  def __init__(self) -> None:
    self._parts: list[_Part] = []

  def remember(self, remote: Any, value: Any) -> None:
    """Remembers what a call returned.

    Args:
      remote: The result in the worker.
      value: The same here.
    """
    self._parts = [part for part in self._parts if part.is_alive()]
    if not isinstance(remote.type_signature, tff.StructType):
      return
    types = tff.structure.to_elements(remote.type_signature)
    values = tff.structure.to_elements(value)
    for index, ((_, type_spec), (_, member)) in enumerate(
      zip(types, values, strict=True)
    ):
      if not _is_at_server(type_spec):
        continue
      leaves = tff.structure.flatten(member)
      num_bytes = sum(x.nbytes for x in leaves if isinstance(x, np.ndarray))
      if num_bytes >= _LEAST_BYTES and _is_read_only(leaves):
        self._parts.append(_Part(remote, index, type_spec, leaves))
    del self._parts[:-_MOST_RESULTS]

  def take(self, value: Any, type_spec: Any) -> tuple[Any, int] | None:
    """Returns what holds a value in the worker, and forgets it.

    What has gone into a round rarely does so again, and would take up room.

    Args:
      value: An argument of a call.
      type_spec: Its type.

    Returns:
      The result in the worker and the index of the value in it; `None` if it is
      not known.
    """
    if not self._parts or not _is_at_server(type_spec):
      return None
    leaves = tff.structure.flatten(_as_struct(value))
    for part in self._parts:
      if part.is_of(leaves, type_spec):
        self._parts.remove(part)
        return part.remote, part.index
    return None

  def clear(self) -> None:
    """Forgets all."""
    self._parts.clear()


class _Part:
  """A value at the server, part of a result."""

  def __init__(
    self, remote: Any, index: int, type_spec: Any, leaves: Sequence[Any]
  ) -> None:
    self.remote = remote
    self.index = index
    self._type = type_spec
    self._leaves = [*map(_reference, leaves)]

  def is_alive(self) -> bool:
    """Returns whether the program still has the value."""
    return all(leaf() is not None for leaf in self._leaves)

  def is_of(self, leaves: Sequence[Any], type_spec: Any) -> bool:
    """Returns whether a value with these leaves is this one, unchanged."""
    return (
      len(leaves) == len(self._leaves)
      and all(
        ref() is leaf for ref, leaf in zip(self._leaves, leaves, strict=True)
      )
      and self._type.is_equivalent_to(type_spec)
      and _is_read_only(leaves)
    )


def _is_at_server(type_spec: Any) -> bool:
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.SERVER
  )


def _as_struct(value: Any) -> Any:
  try:
    return tff.structure.from_container(value, recursive=True)
  except TypeError:  # It is no container.
    return value


def _reference(leaf: Any) -> Callable[[], Any]:
  if isinstance(leaf, np.ndarray):
    return weakref.ref(leaf)
  return lambda: leaf  # Numbers and texts are small.


def _is_read_only(leaves: Sequence[Any]) -> bool:
  return not any(
    isinstance(leaf, np.ndarray) and leaf.flags.writeable for leaf in leaves
  )
