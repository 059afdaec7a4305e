"""Connections to workers, local or remote, through TFF's remote executors."""

import concurrent.futures
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_fair.runtime import (
  native,
  private_tff,
  resident_values,
  shared_memory,
  shared_values,
  threads,
  worker_calls,
  workers,
)

_CHANNEL_OPTIONS = (
  ("grpc.max_receive_message_length", -1),
  ("grpc.max_send_message_length", -1),
  # A worker that is back is found at once, not after up to two minutes.
  ("grpc.max_reconnect_backoff_ms", 200),
  # Requests to workers must not go to a proxy that is set for the web.
  ("grpc.enable_http_proxy", 0),
  # A connection that ends tells that the worker has ended, not of a long pause.
  ("grpc.client_idle_timeout_ms", 2**31 - 1),
)

NO_WORKERS = (
  "There are no workers to compute with: they were stopped, or replaced in "
  "another thread. Call `tff_fair.runtime.use_local` or `use_workers`."
)

FORKED = (
  "This process was forked from one that had a worker, and gRPC's connections "
  'do not survive that. Start it with multiprocessing\'s "spawn", or fork '
  "before the first call of `tff_fair.runtime.use_local`."
)
# The process that connected: this one, or one that it was forked from.
_connected: int | None = None

# An executor takes eight threads and over 1 MB of the worker.
_MAX_EXECUTORS = 16


def check_not_forked() -> None:
  """Raises a `RuntimeError` in the child of a process that connected."""
  if _connected not in (None, os.getpid()):
    raise RuntimeError(FORKED)


class WorkerExecutors(tff.framework.ExecutorFactory):
  """The executors of one worker, one for each number of clients."""

  def __init__(
    self,
    address: str,
    *,
    process: workers.Worker | None = None,
    timeout: float = 10.0,
    default_num_clients: int = 0,
    stream_structs: bool = False,
    plain: bool = False,
    at_once: bool = True,
  ) -> None:
    """Connects to a worker.

    Args:
      address: Where the worker listens, as "host:port".
      process: The worker, if this program started it and can see it end.
      timeout: Seconds within which any other worker has to answer.
      default_num_clients: The number of clients where arguments tell none.
      stream_structs: Whether to send the parts of a structure one by one.
      plain: Whether to use TFF's own executors, which need no private names of
        TFF and are slower.
      at_once: Whether to make sure that it answers, now.

    Raises:
      ConnectionError: If no worker answers in time.
    """
    self._timeout = timeout
    self._default_num_clients = default_num_clients
    self._stream_structs = stream_structs
    self._plain = plain
    self._closed = False
    if not plain:
      private_tff.trace_for_listeners()
    self._connect(address, process)
    if at_once:
      self.create_executor({})

  def _connect(self, address: str, process: workers.Worker | None) -> None:
    global _connected  # noqa: PLW0603
    check_not_forked()
    _connected = os.getpid()
    self._address = address
    self._process = process
    self._executors: dict[int, tff.framework.RemoteExecutor] = {}
    self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
    stub_type: type[tff.framework.RemoteExecutorGrpcStub]
    if self._plain:
      stub_type = tff.framework.RemoteExecutorGrpcStub
    else:
      stub_type = (
        worker_calls.RemoteStub if process is None else worker_calls.LocalStub
      )
    self._stub = stub_type(self._channel)

  @property
  def writes_values(self) -> bool:
    """Whether its executors write each value into one message themselves."""
    return not self._plain and not self._stream_structs

  def replace(self, process: workers.Worker) -> None:
    """Goes on with another worker, which this program has started.

    What the former one kept has ended with it, so nothing tells it to drop it.
    """
    self._forget()
    self._connect(process.address, process)
    self.create_executor({})

  def _forget(self) -> None:
    """Sends the worker no more requests to drop values: they ended with it."""
    if isinstance(self._stub, worker_calls.LocalStub):
      self._stub.is_lost = True
      self._stub.close()

  def create_executor(
    self, cardinalities: tff.framework.CardinalitiesType
  ) -> tff.framework.RemoteExecutor:
    """Returns the executor for so many clients; TFF asks again to retry.

    Raises:
      ConnectionError: If no worker answers in time.
      RuntimeError: If `close` has left the worker, or its process has ended.
    """
    if self._closed:
      raise RuntimeError(NO_WORKERS)
    if isinstance(self._stub, worker_calls.LocalStub) and self._stub.is_lost:
      self._forget()
      self._connect(self._address, self._process)
    num_clients = cardinalities.get(tff.CLIENTS, self._default_num_clients)
    executor = self._executors.pop(num_clients, None)
    if executor is None:
      executor = self._start_executor(num_clients)
    self._executors[num_clients] = executor  # Last: the most recently used.
    if len(self._executors) > _MAX_EXECUTORS:
      self.clean_up_executor({tff.CLIENTS: next(iter(self._executors))})
    return executor

  def _start_executor(self, num_clients: int) -> tff.framework.RemoteExecutor:
    if self._process is None:
      self._wait_until_connected()
    else:  # Listens since it was started, or has ended.
      self._process.check_running()
    executor_type: type[tff.framework.RemoteExecutor]
    if self._plain:
      executor_type = tff.framework.RemoteExecutor
    elif self._process is None or not shared_memory.is_available():
      executor_type = resident_values.ResidentExecutor
    else:
      executor_type = shared_values.SharingExecutor
    # By default a worker keeps the last twenty values, and all that the rounds
    # behind them collected, before it is told to drop them.
    executor = executor_type(
      self._stub, dispose_batch_size=1, stream_structs=self._stream_structs
    )
    try:
      executor.set_cardinalities({tff.CLIENTS: num_clients})
    except grpc.RpcError as error:
      if self._process is not None:
        self._process.check_running(patience=1.0)
      raise ConnectionError(
        f"No working TFF worker answers at {self._address}: "
        f"{error.code().name}, {error.details()}"
      ) from error
    return executor

  def _wait_until_connected(self) -> None:
    connected = grpc.channel_ready_future(self._channel)
    try:
      connected.result(timeout=self._timeout)
    except grpc.FutureTimeoutError as error:
      connected.cancel()
      raise ConnectionError(
        f"No worker answers at {self._address} within {self._timeout:g} s. "
        "Start one there, or check the address and the network."
      ) from error

  def clean_up_executor(
    self, cardinalities: tff.framework.CardinalitiesType
  ) -> None:
    """Frees the worker's memory for so many clients."""
    num_clients = cardinalities.get(tff.CLIENTS, self._default_num_clients)
    executor = self._executors.pop(num_clients, None)
    if executor is not None:
      executor.close()

  def check_running(self) -> None:
    """Raises a `RuntimeError` if this program's worker has ended."""
    if self._process is not None:
      self._process.check_running(patience=1.0)

  def close(self) -> None:
    """Frees the worker's memory, and leaves the worker.

    The garbage collector closes the channel.
    """
    self._closed = True
    for num_clients in list(self._executors):
      self.clean_up_executor({tff.CLIENTS: num_clients})
    if isinstance(self._stub, worker_calls.LocalStub):
      self._stub.close()


def execution_context(
  executors: WorkerExecutors,
  compile_now: Callable[[tff.Computation], Any] = native.compile_now,
) -> tff.framework.AsyncExecutionContext:
  """Returns a context that computes by executors, as TFF's native one does.

  Args:
    executors: Those of a worker.
    compile_now: Returns a computation as the worker takes it.
  """
  return tff.framework.AsyncExecutionContext(
    executors,
    compile_now,
    transform_args=tff.tensorflow.transform_args,
    transform_result=tff.tensorflow.transform_result,
  )


def close_all(
  executors: Sequence[WorkerExecutors], *, timeout: float = 2.0
) -> None:
  """Leaves workers, without waiting for those that are busy or out of reach.

  Args:
    executors: The executors of the workers.
    timeout: Seconds to wait for them all.
  """
  closing = [threading.Thread(target=e.close, daemon=True) for e in executors]
  for thread in closing:
    thread.start()
  deadline = time.monotonic() + timeout
  for thread in closing:
    thread.join(max(0.0, deadline - time.monotonic()))


class RemoteWorker:
  """A worker of others, which computes beside others.

  TFF's remote calls block the thread that makes them. So each worker has a
  thread of its own, in which alone its executors are used.

  Attributes:
    address: Where it listens.
    pulse: Tells whether it lives.
  """

  def __init__(self, address: str, *, timeout: float, **options: Any) -> None:
    """Connects.

    Args:
      address: Where it listens.
      timeout: Seconds within which it has to answer.
      **options: Further ones of `WorkerExecutors`.

    Raises:
      ConnectionError: If it does not answer in time.
    """
    self.address = address
    self._connect = functools.partial(
      WorkerExecutors, address, timeout=timeout, **options
    )
    self._begin(self._connect())
    self.pulse = worker_calls.Pulse(address, timeout=timeout)

  def _begin(self, executors: WorkerExecutors) -> None:
    self._executors = executors
    self._context = execution_context(executors)
    self._thread = threads.LoopThread()

  def submit(
    self, comp: tff.Computation, arg: Any
  ) -> concurrent.futures.Future[Any]:
    """Starts to compute `comp(arg)`; returns the result to come."""
    return self._thread.submit(self._context.invoke(comp, arg))

  def reconnect(self) -> None:
    """Begins anew; a thread may still wait for what the worker did not end."""
    self._thread.close()
    close_all([self._executors], timeout=0.0)
    self._begin(self._connect(at_once=False))

  def leave(self) -> WorkerExecutors:
    """Leaves the worker; returns its executors, which are yet to be closed."""
    self.pulse.close()
    self._thread.close()
    return self._executors
