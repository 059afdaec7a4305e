"""Counts the bytes between this program and its workers."""

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import tensorflow_federated as tff

from tff_fair.runtime import shared_memory

_REQUESTS = (
  "create_value",
  "create_struct",
  "create_call",
  "create_selection",
  "compute",
)


@contextlib.contextmanager
def in_messages() -> Iterator[None]:
  """Has workers get all in messages, as workers on other hosts do."""
  with mock.patch.object(shared_memory, "is_available", return_value=False):
    yield


@contextlib.contextmanager
def counted() -> Iterator[collections.Counter[str]]:
  """Counts the bytes of all messages, `up` to workers and `down` from them."""
  found: collections.Counter[str] = collections.Counter()

  def counting(send: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(stub: Any, request: Any) -> Any:
      response = send(stub, request)
      found["up"] += request.ByteSize()
      found["down"] += response.ByteSize()
      return response

    return wrapped

  with contextlib.ExitStack() as patches:
    for name in _REQUESTS:
      stub = tff.framework.RemoteExecutorGrpcStub
      patches.enter_context(
        mock.patch.object(stub, name, counting(getattr(stub, name)))
      )
    yield found
