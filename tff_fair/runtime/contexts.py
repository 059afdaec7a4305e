"""The functions by which a program chooses where its computations run."""

import asyncio
import contextlib
import gc
import threading
from typing import Any

import grpc
import numpy as np
import tensorflow_federated as tff

from tff_fair.runtime import (
  chosen_context,
  local_context,
  native,
  schedulers,
  tff_internals,
  threads,
)
from tff_fair.runtime.parts import cohort_cuts, part_by_part


class _AsynchronousContext(tff.framework.AsyncContext):
  """Computes in another context, in threads, so that callers need not wait."""

  def __init__(self, context: tff.framework.SyncContext) -> None:
    self._context = context
    self._lock = threading.Lock()

  async def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    if asyncio.iscoroutine(arg):
      arg = await arg

    def compute() -> Any:
      with self._lock:
        return self._context.invoke(comp, arg)

    return await asyncio.wrap_future(threads.submit(compute))


def use_local(
  *,
  exact: bool = False,
  clients_per_part: int | None = None,
  default_num_clients: int = 0,
  max_concurrent_computation_calls: int | None = None,
  simulate_secure_sums: bool = False,
  program: bool = False,
  keep_memory: bool = True,
) -> None:
  """Sets the context that computes in this program.

  Replaces the context of an earlier `use_local` or `use_dask`.

  Args:
    exact: Whether to leave each computation to TFF's own executors, in the
      worker process that TFF starts: nothing is rewritten or cut into parts.
      Several times slower; use it to check a doubtful result.
    clients_per_part: Larger cohorts are computed in parts of this many clients,
      one after another; by default 32; 0 never cuts. It bounds the memory of
      a round, and affects the last digits of results.
    default_num_clients: The number of clients for computations without an
      argument at clients.
    max_concurrent_computation_calls: How many clients run at the same time; by
      default one for each core.
    simulate_secure_sums: Whether to compute secure sums, which TFF refuses to
      run outside of a secure deployment, in the clear. Protects nothing.
    program: Whether calls return references to future values instead of values,
      as programs of `tff.program` and `tff.learning.programs` expect: they need
      a `tff.program.FederatedContext`.
    keep_memory: Whether this program keeps the memory it frees for the next
      round (up to 1 GiB), for speed. The setting lasts until the program ends.

  Raises:
    RuntimeError: If this process was forked from one that had computed before.
    ValueError: If `clients_per_part` is negative, or is positive together with
      `exact`, or if `max_concurrent_computation_calls` is below 1.
  """
  if exact and clients_per_part:
    raise ValueError(
      "Expected no clients_per_part with exact=True, which cuts nothing: "
      f"{clients_per_part}."
    )
  at_a_time = max_concurrent_computation_calls
  if at_a_time is not None and at_a_time < 1:
    raise ValueError(
      f"Expected max_concurrent_computation_calls of 1 or more: {at_a_time}."
    )
  clients_per_part = cohort_cuts.part_size_or_default(clients_per_part)
  local_context.check_not_forked()
  if keep_memory:
    local_context.keep_freed_memory()
  with contextlib.ExitStack() as resources:
    context: _ExactContext | local_context.LocalContext
    if exact:
      context = _ExactContext(
        default_num_clients=default_num_clients,
        max_concurrent_computation_calls=at_a_time or threads.num_cores(),
        simulate_secure_sums=simulate_secure_sums,
      )
    else:
      context = local_context.LocalContext(
        clients_per_part,
        default_num_clients=default_num_clients,
        simulate_secure_sums=simulate_secure_sums,
        clients_at_a_time=at_a_time,
      )
    resources.callback(context.close)
    if exact:  # TFF starts its worker at the first call.
      context.invoke(tff.tensorflow.computation(lambda: np.int32(1)), None)
    tff.framework.set_default_context(
      tff.program.NativeFederatedContext(_AsynchronousContext(context))
      if program
      else context
    )
    chosen_context.replace(
      resources,
      None if isinstance(context, _ExactContext) else context,
      takes_native_form=not simulate_secure_sums,
    )


def use_default() -> None:
  """Sets, in this thread, the context of the last `use_local` or `use_dask`.

  TFF has one default context per thread, and that call may have been in another
  thread. If there was no such call, this function calls `use_local`.
  """
  if not chosen_context.use():
    use_local()


def use_dask(
  client_or_address: Any = None,
  clients_per_part: int | None = None,
  *,
  num_workers: int | None = None,
  simulate_secure_sums: bool = False,
  timeout: float = 10.0,
  worker_timeout: float = 300.0,
) -> Any:
  """Sets the context that computes in a Dask cluster's workers, on any hosts.

  Dask schedules the parts of a round, repeats the work of lost workers, and
  moves partial sums from worker to worker. Results equal those of `use_local`
  with the same `clients_per_part`, bit for bit. Each Dask worker computes in
  its own process, as many clients at a time as it has threads. docs/scaling.md
  describes how to start clusters.

  Replaces the context of an earlier `use_local` or `use_dask`.
  A cluster that this function starts ends with the program at the latest.

  Args:
    client_or_address: A `distributed.Client`, a Dask cluster, or the address of
      a scheduler such as "tcp://host:8786"; by default a new cluster on this
      machine, of processes with one thread each.
    clients_per_part: The most clients that one call computes; 0 never cuts a
      cohort. By default 32.
    num_workers: The number of workers to start on this machine; by default its
      number of cores. Only valid without `client_or_address`.
    simulate_secure_sums: As for `use_local`.
    timeout: Seconds within which the scheduler must answer.
    worker_timeout: Seconds to wait for a worker when the scheduler has none.

  Returns:
    The `distributed.Client`.

  Raises:
    ConnectionError: If the scheduler does not answer in time, or workers on
      this machine do not start.
    ModuleNotFoundError: If Dask is not installed.
    ValueError: If a number is not valid, or a worker has a different version
      of Python, TensorFlow Federated or this project.
  """
  clients_per_part = cohort_cuts.part_size_or_default(clients_per_part)
  if num_workers is not None and (num_workers < 1 or client_or_address):
    raise ValueError(
      f"Found num_workers={num_workers}: expected 1 or more, and no other "
      "cluster beside it."
    )
  schedulers.check_installed()
  from tff_fair.runtime.dask_engine import (  # noqa: PLC0415
    clusters,
    scheduled_calls,
  )

  with contextlib.ExitStack() as resources:
    if client_or_address is None:
      client_or_address = clusters.start_local(resources, num_workers)
    client = clusters.connect(resources, client_or_address, timeout)
    context = part_by_part.PartsContext(
      scheduled_calls.DaskEngine(client, worker_timeout=worker_timeout),
      clients_per_part,
      simulate_secure_sums=simulate_secure_sums,
    )
    resources.callback(context.close)
    tff.framework.set_default_context(context)
    chosen_context.replace(resources, run_on_workers=client.run)
  return client


# TFF's own context, whose worker process ends with this program.


_MOST_CHARACTERS = 300


class _ExactContext(tff.framework.SyncContext):
  """Computes in TFF's own context, which starts a worker process."""

  def __init__(self, *, simulate_secure_sums: bool, **options: Any) -> None:
    tff_internals.end_workers_with_program()
    create = tff.backends.native.create_sync_local_cpp_execution_context
    self._context = create(**options)
    self._with_sums = native.secure_sum_transform(simulate_secure_sums)

  def invoke(self, comp: Any, arg: Any) -> Any:
    if self._context is None:
      raise RuntimeError(part_by_part.CLOSED_MESSAGE)
    try:
      return self._context.invoke(self._with_sums(comp), arg)
    except grpc.RpcError as error:
      text = str(error.details() if isinstance(error, grpc.Call) else error)
      first = text.strip().partition("\n")[0]
      raise RuntimeError(first[:_MOST_CHARACTERS]) from error

  def close(self) -> None:
    """Releases TFF's context, which ends its worker."""
    self._context = None
    gc.collect()
