"""Computes in one certain worker, beside the context of the program."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_fair.runtime import connections, liveness, private_tff


@contextlib.contextmanager
def in_worker(
  address: str, *, timeout: float = 10.0, call_timeout: float | None = None
) -> Iterator[None]:
  """Computes what is called within in the worker at an address.

  Args:
    address: Where it listens, as `use_workers` takes it.
    timeout: Seconds within which it has to answer.
    call_timeout: Seconds within which each computation has to end; by default
      it may take for ever.

  Raises:
    ConnectionError: If it does not answer in time.
    TimeoutError: If it answers, and a computation does not end in time.
  """
  executors = connections.WorkerExecutors(
    address, timeout=timeout, plain=not private_tff.check()
  )
  with contextlib.ExitStack() as opened:
    opened.callback(connections.close_all, [executors])
    context = connections.ConcurrentContext(
      connections.execution_context(executors)
    )
    opened.callback(context.close)
    opened.enter_context(
      tff.framework.get_context_stack().install(
        _Waiting(context, address, timeout, call_timeout)
      )
    )
    yield


class _Waiting(tff.framework.SyncContext):
  """Waits for the results of another context."""

  def __init__(
    self,
    context: connections.ConcurrentContext,
    address: str,
    timeout: float,
    call_timeout: float | None,
  ) -> None:
    self._context = context
    self._address = address
    self._timeout = timeout
    self._call_timeout = call_timeout

  def invoke(self, comp: Any, arg: Any) -> Any:
    computed = self._context.submit(comp, arg)
    try:
      return computed.result(self._call_timeout)
    except (TimeoutError, grpc.RpcError):
      problem = asyncio.run(self._problem())
      if problem is None:
        raise
      raise ConnectionError(
        f"The worker at {self._address} {problem}."
      ) from None

  async def _problem(self) -> str | None:
    """Returns how the worker fails to answer; `None` if it answers."""
    pulse = liveness.Pulse(self._address, timeout=self._timeout)
    try:
      return await pulse.problem()
    finally:
      pulse.close()
