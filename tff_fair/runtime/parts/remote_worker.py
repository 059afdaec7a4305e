"""A worker of others: the connection to it, and its pulse."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import connections, liveness

# Makes a context that computes by the executors of a worker.
CreateContext = Callable[
  [connections.WorkerExecutors], tff.framework.AsyncExecutionContext
]
Connect = Callable[..., connections.WorkerExecutors]


class RemoteWorker:
  """A worker of others.

  Attributes:
    address: Where it listens.
    pulse: Tells whether it lives.
  """

  def __init__(
    self,
    address: str,
    *,
    connect: Connect,
    create_context: CreateContext,
    timeout: float,
  ) -> None:
    """Connects.

    Args:
      address: Where it listens.
      connect: Connects to it; takes whether to make sure that it answers, as
        `at_once`.
      create_context: See there.
      timeout: Seconds within which it has to answer.

    Raises:
      ConnectionError: If it does not answer in time.
    """
    self.address = address
    self._connect = connect
    self._create_context = create_context
    self.pulse = liveness.Pulse(address, timeout=timeout)
    self._begin(connect(at_once=True))

  def _begin(self, executors: connections.WorkerExecutors) -> None:
    self._executors = executors
    self._context = connections.ConcurrentContext(
      self._create_context(executors)
    )

  def submit(
    self, comp: tff.Computation, arg: Any
  ) -> concurrent.futures.Future[Any]:
    """Starts to compute `comp(arg)`; returns the result to come."""
    return self._context.submit(comp, arg)

  def reconnect(self) -> None:
    """Begins anew; a thread may still wait for what the worker did not end."""
    self._leave()
    self._begin(self._connect(at_once=False))

  def _leave(self) -> threading.Thread:
    self._context.close()
    leaving = threading.Thread(target=self._executors.close, daemon=True)
    leaving.start()
    return leaving

  def close(self) -> threading.Thread:
    """Leaves the worker; returns the thread that does."""
    self.pulse.close()
    return self._leave()
