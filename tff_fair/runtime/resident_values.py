"""A remote executor that sends no value again that its worker still has.

TFF sends the computation and the clients' data with every call. Rounds of all
clients, and evaluations, send the same again and again. Here the worker keeps a
value that comes for the second time, until newer values need the room.

The program sends a state again that it got from the worker. The worker could
keep it, but a value there holds on to everything that it was computed from: the
rounds before it would stay in memory, too. `shared_values` has another way.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, example_files, private_tff, sending
from tff_fair.runtime.one_graph import client_values

# Of `tf.data.experimental.ExternalStatePolicy`.
_FAIL = 2
# The limits for the values that one executor keeps in its worker. Each part of
# a cohort is one.
_MOST_VALUES = 128
_MOST_BYTES = 256 * 2**20


# What a value is, by identity of its parts.
_Key: TypeAlias = tuple[Any, ...]


class ResidentExecutor(sending.SendingExecutor):
  """Knows computations and datasets of clients when they come again."""

  def __init__(self, *args: Any, **kwargs: Any) -> None:
    """Takes the arguments of `tff.framework.RemoteExecutor`."""
    super().__init__(*args, **kwargs)
    # By identity, the most recently used last.
    self._seen: collections.OrderedDict[_Key, _Seen] = collections.OrderedDict()

  async def create_value(
    self, value: Any, type_spec: tff.Type | None = None
  ) -> Any:
    """Returns the value in the worker, which may be there already."""
    parts = _lasting_parts(value, type_spec)
    if not parts:
      return await super().create_value(value, type_spec)
    # The same datasets have two forms: with one graph for all clients, and not.
    key = (type(value).__name__, type_spec, *map(id, parts))
    seen = self._seen.pop(key, None)
    if seen is None or not seen.is_of(parts):
      # Once is no reason to keep it: most cohorts never come again.
      self._remember(key, _Seen(parts))
      return await super().create_value(value, type_spec)
    remote = seen.remote
    if remote is None:
      remote = await super().create_value(value, type_spec)
      if seen.num_bytes is None:
        seen.num_bytes = _num_bytes(value, type_spec)
        if seen.num_bytes <= _MOST_BYTES and all(map(_may_keep, parts)):
          seen.remote = remote
    self._remember(key, seen)
    return remote

  def close(self) -> None:
    """Forgets all values, and frees those that the worker holds."""
    self._seen.clear()
    super().close()

  def _remember(self, key: _Key, seen: _Seen) -> None:
    self._seen[key] = seen
    while len(self._seen) > _MOST_VALUES or self._num_bytes() > _MOST_BYTES:
      self._seen.popitem(last=False)

  def _num_bytes(self) -> int:
    """Returns the size of all values that the worker keeps."""
    return sum(
      seen.num_bytes or 0
      for seen in self._seen.values()
      if seen.remote is not None
    )


class _Seen:
  """A value that was sent: its parts, and its place if the worker keeps it.

  An id tells which object it is only as long as that object lives.
  """

  def __init__(self, parts: Sequence[Any]) -> None:
    self._parts = [weakref.ref(part) for part in parts]
    self.remote: Any = None
    self.num_bytes: int | None = None  # Known from the second time on.

  def is_of(self, parts: Sequence[Any]) -> bool:
    return all(
      ref() is part for ref, part in zip(self._parts, parts, strict=True)
    )


def _lasting_parts(value: Any, type_spec: tff.Type | None) -> Sequence[Any]:
  """Returns the objects a value consists of; none if it never comes again."""
  if isinstance(value, tff.Computation):
    return [value]
  if isinstance(value, client_values.ClientValues):
    clients = value.values
  elif (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and isinstance(value, (list, tuple))
  ):
    clients = value
  else:
    return []
  of_data = all(isinstance(client, tf.data.Dataset) for client in clients)
  return clients if of_data else []


def _may_keep(part: Any) -> bool:
  """Returns whether a part is the same at each call, however it is used."""
  if isinstance(part, tff.Computation | example_files.ClientInFiles):
    return True
  # TensorFlow refuses to serialize what depends on variables and tables.
  variant = tf.data.experimental.to_variant(part)
  try:
    graph = tf.raw_ops.DatasetToGraphV2(
      input_dataset=variant, external_state_policy=_FAIL
    )
  except tf.errors.OpError:
    return False
  return admission.may_keep(graph.numpy())


def _num_bytes(value: Any, type_spec: tff.Type | None) -> int:
  if isinstance(value, tff.Computation):
    return 0  # Small beside data.
  message = private_tff.executor_pb2.Value()
  sending.write(message, value, tff.to_type(type_spec))
  return message.ByteSize()
