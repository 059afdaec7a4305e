"""Tells a worker that is busy from one that is dead or stands still.

A worker answers calls while it computes others. So it is asked an empty one, on
a connection of its own, where no large message is in the way. gRPC's keepalive
cannot do this: TFF's worker answers it with an error ("too many pings").
"""

import asyncio
import contextlib
import functools
from typing import Any

import grpc

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
