"""Connections to workers, local or remote, through TFF's remote executors."""

import asyncio
import contextlib
import json
import threading
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_fair.runtime import workers


class WorkerExecutors(tff.framework.ExecutorFactory):
  """The executors of one worker, one for each number of clients."""

  def __init__(
    self,
    address: str,
    *,
    timeout: float,
    process: workers.Worker | None = None,
    default_num_clients: int = 0,
    stream_structs: bool = False,
  ) -> None:
    """Connects to a worker.

    Args:
      address: Where the worker listens, as "host:port".
      timeout: Seconds within which it has to answer, now and after it was lost.
      process: The worker, if this program started it and can see it end.
      default_num_clients: The number of clients where arguments tell none.
      stream_structs: Whether to send the parts of a structure one by one.

    Raises:
      ConnectionError: If no worker answers in time.
    """
    self._address = address
    self._timeout = timeout
    self._process = process
    self._default_num_clients = default_num_clients
    self._stream_structs = stream_structs
    self._executors: dict[int, tff.framework.RemoteExecutor] = {}
    self._closed = False
    self._stub = tff.framework.RemoteExecutorGrpcStub(
      grpc.insecure_channel(
        address,
        # What refuses a connection on this machine has ended: no need to wait.
        _channel_options(timeout=timeout, wait_for_ready=process is None),
      )
    )
    self.create_executor({})

  def create_executor(
    self, cardinalities: tff.framework.CardinalitiesType
  ) -> tff.framework.RemoteExecutor:
    """Returns the executor for so many clients; TFF asks again to retry.

    Raises:
      ConnectionError: If no worker answers in time.
      RuntimeError: If it was left, or is a process that has ended.
    """
    if self._closed:
      raise RuntimeError(
        "What this context computes with was stopped or replaced. Call "
        "`tff_fair.runtime.use_local` or `use_workers` in this thread first."
      )
    num_clients = cardinalities.get(tff.CLIENTS, self._default_num_clients)
    if num_clients not in self._executors:
      if self._process is not None:
        self._process.check_running()
      executor = tff.framework.RemoteExecutor(
        self._stub, stream_structs=self._stream_structs
      )
      try:
        executor.set_cardinalities({tff.CLIENTS: num_clients})
      except grpc.RpcError as error:
        if self._process is not None:
          self._process.check_running(patience=1.0)
        raise ConnectionError(
          f"No TFF worker answers at {self._address} within "
          f"{self._timeout:g} s ({error.code().name}). Start one there, or "
          "check the address and the network."
        ) from error
      self._executors[num_clients] = executor
    return self._executors[num_clients]

  def clean_up_executor(
    self, cardinalities: tff.framework.CardinalitiesType
  ) -> None:
    """Frees what the worker holds for so many clients."""
    num_clients = cardinalities.get(tff.CLIENTS, self._default_num_clients)
    executor = self._executors.pop(num_clients, None)
    if executor is not None:
      executor.close()

  def close(self) -> None:
    """Frees what the worker holds, and leaves it.

    The channel is left to the garbage collector: the thread in which gRPC
    watches its state for TFF would trip over its being closed.
    """
    self._closed = True
    for num_clients in list(self._executors):
      self.clean_up_executor({tff.CLIENTS: num_clients})


def _channel_options(
  *, timeout: float, wait_for_ready: bool
) -> list[tuple[str, int | str]]:
  def method(name: str, **config: bool | str) -> dict[str, Any]:
    service = "tensorflow_federated.v0.ExecutorGroup"
    return {"name": [{"service": service, "method": name}], **config}

  # The first call to a worker finds out whether it is there. The last one must
  # not wait for a round that nobody awaits any more.
  methods = [
    method(
      "GetExecutor", waitForReady=wait_for_ready, timeout=f"{timeout:.3f}s"
    ),
    method("DisposeExecutor", timeout="2s"),
  ]
  return [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A worker that is back is found within a second, not after two minutes.
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A proxy that is set for the web must not get what is for the workers.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", json.dumps({"methodConfig": methods})),
  ]


class ConcurrentContext(tff.framework.AsyncContext):
  """Computes in a thread of its own, so that workers work at the same time.

  TFF's remote calls block the thread they are made in: with the plain contexts
  of several workers in one event loop, one worker works after the other.
  """

  def __init__(self, context: tff.framework.AsyncExecutionContext) -> None:
    self._context = context
    self._loop = asyncio.new_event_loop()
    # A daemon does not keep a program alive that is interrupted in a round.
    threading.Thread(target=self._run, daemon=True).start()

  def _run(self) -> None:
    with contextlib.closing(self._loop):
      self._loop.run_forever()

  async def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    return await asyncio.wrap_future(
      asyncio.run_coroutine_threadsafe(
        self._context.invoke(comp, arg), self._loop
      )
    )

  def close(self) -> None:
    """Ends the thread."""
    self._loop.call_soon_threadsafe(self._loop.stop)
