"""Computes in one certain worker, beside the context of the program."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import connections, private_tff


@contextlib.contextmanager
def in_worker(address: str, *, timeout: float = 10.0) -> Iterator[None]:
  """Computes what is called within in the worker at an address.

  Args:
    address: Where it listens, as `use_workers` takes it.
    timeout: Seconds within which it has to answer.

  Raises:
    ConnectionError: If it does not answer in time.
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
      tff.framework.get_context_stack().install(_Waiting(context))
    )
    yield


class _Waiting(tff.framework.SyncContext):
  """Waits for the results of another context."""

  def __init__(self, context: connections.ConcurrentContext) -> None:
    self._context = context

  def invoke(self, comp: Any, arg: Any) -> Any:
    return self._context.submit(comp, arg).result()
