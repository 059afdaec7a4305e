"""How a program speaks to a worker: TFF's calls, and what a lost worker means.

TFF itself asks a worker that is lost again and again. Here a worker of others
that is lost is an error, and its connection is not used any more.

A pulse tells a worker that is busy from one that is dead or stands still. A
worker answers calls while it computes others. So it is asked an empty one, on a
connection of its own, where no large message is in the way. gRPC's keepalive
cannot do this: TFF's worker answers it with an error ("too many pings").
"""

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
import tensorflow_federated as tff


class _UnwatchedChannel:
  """A channel whose state TFF does not watch.

  The thread that watches it looks several times a second, and keeps the channel
  open until the program ends.
  """

  def __init__(self, channel: grpc.Channel) -> None:
    self._channel = channel

  def subscribe(self, *_: Any, **__: Any) -> None:
    """Does nothing: TFF's executors do not ask for the state."""

  def __getattr__(self, name: str) -> Any:
    """Returns what the channel has."""
    return getattr(self._channel, name)


class LocalStub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's stub, which does not wait until the worker has dropped a value.

  Attributes:
    is_lost: Whether the worker may be another one by now. Workers number what
      they keep alike, so the stub tells a new worker to drop nothing.
  """

  def __init__(self, channel: grpc.Channel) -> None:
    super().__init__(_UnwatchedChannel(channel))
    self.is_lost = False
    self._disposals: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=self._dispose_in_turn, daemon=True).start()

  def dispose(self, request: Any) -> None:
    """Tells the worker to drop values, some time soon."""
    self._disposals.put(request)

  def dispose_executor(self, request: Any) -> Any:
    """Tells the worker to drop an executor, if it is still the same worker."""
    return None if self.is_lost else super().dispose_executor(request)

  def close(self) -> None:
    """Ends the thread that tells it."""
    self._disposals.put(None)

  def _dispose_in_turn(self) -> None:
    has_ended = False
    while not has_ended:
      waiting = [self._disposals.get()]
      with contextlib.suppress(queue.Empty):
        while True:
          waiting.append(self._disposals.get_nowait())
      has_ended = None in waiting
      for request in _joined(waiting):
        # A worker that is gone has dropped everything.
        with contextlib.suppress(grpc.RpcError, tff.framework.RetryableError):
          if not self.is_lost:
            super().dispose(request)


def _joined(requests: Sequence[Any]) -> Iterable[Any]:
  """Returns one request to drop values for each executor; `None`s are none."""
  by_executor: dict[str, Any] = {}
  for request in requests:
    if request is None:
      continue
    joined = by_executor.setdefault(request.executor.id, request)
    if joined is not request:
      joined.value_ref.extend(request.value_ref)
  return by_executor.values()


class RemoteStub(LocalStub):
  """Speaks to a worker of others, and notices when it is lost."""

  def __init__(self, channel: grpc.Channel) -> None:
    super().__init__(channel)
    self._was_ready = False
    self._watched = channel
    channel.subscribe(self._notice)

  def close(self) -> None:
    """Ends the thread that tells the worker to drop values, and the watch."""
    super().close()
    self._watched.unsubscribe(self._notice)

  def _notice(self, state: grpc.ChannelConnectivity) -> None:
    """Takes the states of the connection, in a thread of gRPC's."""
    if state is grpc.ChannelConnectivity.READY:
      self._was_ready = True
    elif self._was_ready:
      self.is_lost = True

  def _ask(self, name: str, request: Any) -> Any:
    """Calls a method; TFF itself would ask a lost worker again and again.

    Raises:
      ConnectionError: If the worker is lost, or no longer knows this program.
    """
    try:
      return getattr(super(), name)(request)
    except tff.framework.RetryableError as error:
      self.is_lost = True
      raise ConnectionError(
        "was lost" if _is_gone(error) else "was started again"
      ) from error

  create_value = functools.partialmethod(_ask, "create_value")
  create_struct = functools.partialmethod(_ask, "create_struct")
  create_call = functools.partialmethod(_ask, "create_call")
  create_selection = functools.partialmethod(_ask, "create_selection")
  compute = functools.partialmethod(_ask, "compute")


def _is_gone(error: Exception) -> bool:
  return (
    not isinstance(error, grpc.Call)
    or error.code() is grpc.StatusCode.UNAVAILABLE
  )


# Whatever a worker answers to it, it lives: this drops no values.
_EMPTY_CALL = "/tensorflow_federated.v0.ExecutorGroup/Dispose"
_CHANNEL_OPTIONS = (
  ("grpc.enable_http_proxy", 0),
  ("grpc.max_reconnect_backoff_ms", 200),
  ("grpc.use_local_subchannel_pool", 1),
)
_SECONDS_BETWEEN_CALLS = 0.5


class Pulse:
  """Asks one worker whether it lives."""

  def __init__(self, address: str, *, timeout: float) -> None:
    """Does not connect yet.

    Args:
      address: Where the worker listens.
      timeout: Seconds within which it has to answer.
    """
    self._timeout = timeout
    self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
    self._call = self._channel.unary_unary(_EMPTY_CALL)

  async def problem(self) -> str | None:
    """Returns how the worker fails to answer; `None` if it answers."""
    answered: asyncio.Future[grpc.StatusCode] = (
      asyncio.get_running_loop().create_future()
    )
    call = self._call.future(b"", timeout=self._timeout)
    call.add_done_callback(functools.partial(_pass_on, answered))
    try:
      code = await answered
    finally:
      call.cancel()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
      return f"does not answer for {self._timeout:g} s"
    if code is grpc.StatusCode.UNAVAILABLE:
      return "is gone"
    return None

  async def stops(self) -> str:
    """Returns how the worker fails to answer, soon after it does."""
    problem = None
    while problem is None:
      # First: most computations end sooner.
      await asyncio.sleep(_SECONDS_BETWEEN_CALLS)
      problem = await self.problem()
    return problem

  def close(self) -> None:
    """Leaves the worker."""
    self._channel.close()


def _pass_on(answered: asyncio.Future[grpc.StatusCode], call: Any) -> None:
  """Tells the loop that waits, from a thread of gRPC's."""

  def tell() -> None:
    if not answered.done():
      answered.set_result(call.code())

  with contextlib.suppress(RuntimeError):  # The loop has ended.
    answered.get_loop().call_soon_threadsafe(tell)
