"""The engine of `use_dask`: submits calls as tasks to a Dask scheduler."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import distributed
import tensorflow_federated as tff
from distributed.protocol import pickle

from tff_fair.runtime import (
  native,
  supervision,
  tff_internals,
  threads,
  values,
  version,
)
from tff_fair.runtime.dask_engine import tasks, worker_execution
from tff_fair.runtime.parts import part_by_part

_POLL_SECONDS = 0.5
_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True)
class _RemoteValue:
  """A value that Dask's workers hold, or will hold."""

  future: distributed.Future
  type_spec: tff.Type


class DaskEngine:
  """Computes calls in Dask's workers; see `part_by_part.Engine`."""

  def __init__(
    self, client: distributed.Client, *, worker_timeout: float
  ) -> None:
    self._client = client
    assert client.scheduler is not None  # The client is connected.
    self._address = client.scheduler.address
    self._worker_timeout = worker_timeout
    self._versions = version.installed()
    self._turns: Iterator[str] = iter(())

  def put(self, value: Any, type_spec: tff.Type) -> _RemoteValue:
    """Copies a value to all workers, since several calls take it.

    Dask prefers workers that hold the inputs of a task. Without copies it may
    assign all parts to one worker, and move them only after a second.
    """
    packed = self._pack(value, type_spec)
    future = self._submit("tff-put", tasks.unpack, packed)
    self._wait(future)
    # Copies only save time: a worker fetches a value that it lacks.
    with contextlib.suppress(Exception):
      self._client.replicate([future])
    workers = self._call_dask(self._client.nthreads)
    self._turns = itertools.cycle(
      [address for address, n in workers.items() for _ in range(n)]
    )
    return _RemoteValue(future, type_spec)

  def call(self, comp: tff.Computation, *args: Any) -> _RemoteValue:
    """Submits `comp(*args)` to a worker, without waiting for it."""
    name, content = self._send_once(comp)
    parameter = comp.type_signature.parameter
    arg = None
    worker = None
    if parameter is not None:
      whole = part_by_part.pack_arguments(args)
      arg = self._pack_argument(whole, parameter)
      # Workers take turns with parts. A merge runs best on a worker that has
      # its sums.
      worker = next(self._turns, None) if _has_clients(whole) else None
    future = self._submit(
      name,
      tasks.compute,
      self._versions,
      content,
      arg,
      # If the preferred worker is lost or busy, another worker may compute it.
      workers=worker and [worker],
      allow_other_workers=worker is not None,
    )
    return _RemoteValue(future, comp.type_signature.result)

  def fetch(self, result: _RemoteValue) -> Any:
    """Returns the value of a call's result, as TFF's contexts return it."""
    future = result.future
    self._wait(future)
    try:
      if future.status == "error":
        future.result()  # Raises the error of the task.
    except distributed.KilledWorker as error:
      raise supervision.WorkerLostError(
        f"{error.allowed_failures + 1} Dask workers in a row ended while they "
        "computed the same part; their machines may have run out of memory"
      ) from error
    value = self._call_dask(future.result)
    return values.to_containers(value, result.type_spec)

  def _send_once(self, comp: tff.Computation) -> tuple[str, distributed.Future]:
    """Sends `comp` only once; returns the name of its tasks, and its future."""
    sent: weakref.WeakKeyDictionary[
      DaskEngine, tuple[str, distributed.Future]
    ] = tff_internals.cached_on(comp, "sent", weakref.WeakKeyDictionary)
    if self not in sent:
      content = native.compile_ahead(comp).content()
      # Dask predicts how long a task takes from earlier tasks of the same name.
      name = f"tff_{hashlib.sha256(content).hexdigest()[:8]}"
      packed = tasks.PickledValue(pickle.dumps(content))
      held = self._submit("tff-computation", tasks.unpack, packed)
      sent[self] = name, held
    return sent[self]

  def _submit(
    self, name: str, function: Callable[..., Any], *args: Any, **options: Any
  ) -> distributed.Future:
    return self._call_dask(
      self._client.submit,
      function,
      *args,
      key=f"{name}-{uuid.uuid4().hex}",
      **options,
    )

  def _pack(self, value: Any, type_spec: tff.Type) -> tasks.PickledValue:
    found = values.ingest(value, type_spec)
    return tasks.PickledValue(pickle.dumps(worker_execution.to_portable(found)))

  def _pack_argument(self, arg: Any, type_spec: tff.Type) -> Any:
    """Returns an argument for `tasks.compute`; remote values become futures."""
    if isinstance(arg, _RemoteValue):
      return arg.future  # Dask replaces the future by its value.
    if not any(
      isinstance(part, _RemoteValue) for part in tff.structure.flatten(arg)
    ):
      return self._pack(arg, type_spec)
    return tuple(map(self._pack_argument, arg, type_spec))

  def _wait(self, future: distributed.Future) -> None:
    """Waits until a task has ended."""
    alone_since: float | None = None
    while not _has_ended(future):
      threads.check_not_cancelled()
      if self._call_dask(self._client.nthreads):
        alone_since = None
      elif alone_since is None:
        alone_since = time.monotonic()
        self._report_waiting()
      elif time.monotonic() - alone_since > self._worker_timeout:
        raise supervision.WorkerLostError(
          f"the Dask scheduler at {self._address} has had no worker for "
          f"{self._worker_timeout:.0f} s"
        )

  def _report_waiting(self) -> None:
    if (supervised := supervision.current()) is not None:
      supervised.say(
        f"The Dask scheduler at {self._address} has no worker; waiting "
        f"{self._worker_timeout:.0f} s for one."
      )

  def _call_dask(
    self, function: Callable[..., _Result], *args: Any, **options: Any
  ) -> _Result:
    """Calls a function of Dask; raises `WorkerLostError` if Dask is gone."""
    try:
      return function(*args, **options)
    except (distributed.CancelledError, OSError) as error:
      raise supervision.WorkerLostError(
        f"the Dask scheduler at {self._address} is gone"
      ) from error


def _has_ended(future: distributed.Future) -> bool:
  """Waits briefly for a task; returns whether it has ended."""
  try:
    future.exception(timeout=_POLL_SECONDS)
  except TimeoutError:
    return False
  return True


def _has_clients(arg: Any) -> bool:
  """Returns whether an argument has a nonempty list of clients' values."""
  if isinstance(arg, tff.structure.Struct):
    return any(map(_has_clients, arg))
  return isinstance(arg, list) and bool(arg)
