"""Execution contexts: computations run in one local worker, or in several.

TFF keeps one default context per thread: `use_local` and `use_workers` set it
for the thread that calls them.
"""

import atexit
import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow_federated as tff

from tff_fair.runtime import (
  allocator,
  connections,
  native,
  private_tff,
  starting,
  supervised_contexts,
  worker_addresses,
  workers,
)
from tff_fair.runtime.dask_engine import addresses
from tff_fair.runtime.parts import calls, cutting, remote_worker, worker_pool
from tff_fair.runtime.parts import context as parts_context

_SECONDS_TO_CLOSE = 1.0


def _compile_in_the_clear(comp: tff.Computation) -> Any:
  return tff.backends.native.desugar_and_transform_to_native(
    tff.backends.test.replace_secure_intrinsics_with_bodies(comp)
  )


def _create_context(
  executors: connections.WorkerExecutors,
  compile_now: Callable[[tff.Computation], Any] = native.compile_now,
) -> tff.framework.AsyncExecutionContext:
  """Creates a context as TFF's native backend does."""
  return tff.framework.AsyncExecutionContext(
    executors,
    compile_now,
    transform_args=tff.tensorflow.transform_args,
    transform_result=tff.tensorflow.transform_result,
  )


_current = contextlib.ExitStack()  # Closes the default context.


def use_local(
  *,
  clients_per_part: int | None = None,
  default_num_clients: int = 0,
  max_concurrent_computation_calls: int | None = None,
  stream_structs: bool = False,
  simulate_secure_sums: bool = False,
  asynchronous: bool = False,
  keep_memory: bool = True,
  worker_environment: Mapping[str, str] | None = None,
  timeout: float = 60.0,
) -> None:
  """Computes in a worker process of this program, on this machine.

  Replaces the context of an earlier `use_local` or `use_workers`, and stops the
  worker that it started.

  Args:
    clients_per_part: Cohorts of more clients are computed in parts of so many,
      one part after the other; by default 32, and 0 never cuts. A result
      depends on it, in its last digits. It bounds the memory of the worker.
    default_num_clients: The number of clients of computations that take no
      value of clients.
    max_concurrent_computation_calls: How many clients run at the same time; by
      default one for each core, without limit if it is not positive.
    stream_structs: Whether to send the parts of a structure one by one; needed
      where one message would pass 2 GiB.
    simulate_secure_sums: Whether to compute secure sums, which TFF refuses to
      run outside of a secure deployment, in the clear. Protects nothing.
    asynchronous: Whether calls return references to values yet to come, as
      programs written to `tff.program` expect, instead of values.
    keep_memory: Whether this program, like the worker, keeps the memory it
      frees for the next round (up to 1 GiB), for speed. Lasts until it ends.
    worker_environment: Variables to set for the worker, over those of this
      program and the defaults (see `start_worker`).
    timeout: Seconds within which the worker has to be ready.

  Raises:
    RuntimeError: If the worker ends instead of getting ready.
    TimeoutError: If it does not get ready in time.
    ValueError: If `clients_per_part` is below 0.
  """
  clients_per_part = cutting.checked(clients_per_part)
  if keep_memory:
    allocator.keep_freed_memory()
  with contextlib.ExitStack() as opened:
    start = functools.partial(
      starting.start_worker,
      max_concurrent_computation_calls=max_concurrent_computation_calls,
      environment=worker_environment,
      timeout=timeout,
    )
    worker, executors = _start_local(
      opened,
      start,
      default_num_clients=default_num_clients,
      stream_structs=stream_structs,
    )
    compile_now = (
      _compile_in_the_clear if simulate_secure_sums else native.compile_now
    )
    context = _create_context(executors, compile_now)
    local = supervised_contexts.LocalContext(
      connections.ConcurrentContext(context),
      executors,
      worker,
      start,
      clients_per_part,
      part_calls=calls.Calls(executors, compile_now),
    )
    # Runs first: closing must not wait for a round that nobody awaits any more.
    opened.callback(local.close)
    tff.framework.set_default_context(
      tff.program.NativeFederatedContext(
        supervised_contexts.AsynchronousContext(local)
      )
      if asynchronous
      else local
    )
    _replace_current(opened, worker, natively=not simulate_secure_sums)


def open_local(
  *,
  max_concurrent_computation_calls: int,
  worker_environment: Mapping[str, str],
) -> supervised_contexts.LocalContext:
  """Returns a context with a worker of its own, which is nobody's default.

  The worker ends with this program. `use_local` tells of the arguments.

  Raises:
    RuntimeError: If the worker ends instead of getting ready.
    TimeoutError: If it does not get ready in time.
  """
  start = functools.partial(
    starting.start_worker,
    max_concurrent_computation_calls=max_concurrent_computation_calls,
    environment=worker_environment,
  )
  with contextlib.ExitStack() as opened:
    worker, executors = _start_local(opened, start)
    context = connections.ConcurrentContext(_create_context(executors))
    opened.pop_all()
  return supervised_contexts.LocalContext(
    context, executors, worker, start, clients_per_part=0
  )


def _start_local(
  opened: contextlib.ExitStack,
  start: Callable[[], workers.Worker],
  **options: Any,
) -> tuple[workers.Worker, connections.WorkerExecutors]:
  """Returns a worker of this program, and its executors; `opened` ends both."""
  worker = opened.enter_context(start())
  executors = connections.WorkerExecutors(
    worker.address, process=worker, plain=not private_tff.check(), **options
  )
  opened.callback(connections.close_all, [executors])
  return worker, executors


def use_workers(
  addresses: Sequence[str],
  clients_per_part: int | None = None,
  *,
  num_subrounds: int | None = None,
  stream_structs: bool = False,
  timeout: float = 10.0,
  straggler_timeout: float | None = None,
) -> None:
  """Computes in several workers, each of which takes a part of the clients.

  A worker is `python -m binaries.worker` on any host, TFF's own `worker_binary
  --port=...`, or one that `start_worker` started. They are left running.
  Whoever reaches the port of a worker can make it do anything: docs/security.md
  tells how to keep others out.

  Any free worker takes the next part. A result depends on the size of the parts
  alone, so it is that of `use_local` with the same size, bit for bit, for any
  number of workers. A worker that is lost is left out until it answers again,
  and its part is computed by another one.

  A computation that cannot be cut, because one of its sums depends on another,
  is one part. Replaces the context of an earlier `use_local` or `use_workers`.

  Args:
    addresses: Where the workers listen, each as "host:port", an IPv6 address as
      "[address]:port", or as a worker of `start_worker` tells it.
    clients_per_part: The number of clients of a part, 32 by default. Smaller
      parts need less memory on the workers. 0 never cuts.
    num_subrounds: The number of parts, in the place of their size; the name of
      earlier versions.
    stream_structs: Whether to send the parts of a structure one by one; needed
      where one message would pass 2 GiB.
    timeout: Seconds within which each worker has to answer, now and while it
      computes.
    straggler_timeout: Seconds after which another worker computes a part, too,
      that one has not ended; the first result counts. By default never.

  Raises:
    ConnectionError: If a worker does not answer now.
    TypeError: If `addresses` is a single string.
    ValueError: If there are no addresses, one is malformed or listed twice, or
      a number is out of range.
  """
  worker_addresses.check(addresses)
  if num_subrounds is not None:
    _check_number("num_subrounds", num_subrounds, least=1)
    warnings.warn(
      "num_subrounds is now clients_per_part, the size of the parts instead of "
      "their number; the old name will go.",
      DeprecationWarning,
      stacklevel=2,
    )
  clients_per_part = cutting.checked(clients_per_part)
  plain = not private_tff.check()
  with contextlib.ExitStack() as opened:
    members: list[remote_worker.RemoteWorker] = []
    pool = worker_pool.WorkerPool(
      members, timeout=timeout, straggler_timeout=straggler_timeout
    )
    opened.callback(pool.close)
    for address in addresses:
      connect = functools.partial(
        connections.WorkerExecutors,
        address,
        timeout=timeout,
        stream_structs=stream_structs,
        plain=plain,
      )
      members.append(
        remote_worker.RemoteWorker(
          address,
          connect=connect,
          create_context=_create_context,
          timeout=timeout,
        )
      )
    context = parts_context.PartsContext(
      pool, clients_per_part, num_parts=num_subrounds
    )
    opened.callback(context.close, patience=_SECONDS_TO_CLOSE)
    tff.framework.set_default_context(context)
    _replace_current(opened, natively=True)


class _DaskContext(parts_context.PartsContext):
  """Computes in workers that run Python."""


def use_dask(
  client_or_address: Any = None,
  clients_per_part: int | None = None,
  *,
  num_workers: int | None = None,
  timeout: float = 10.0,
  worker_timeout: float = 300.0,
) -> Any:
  """Computes in the workers of a Dask cluster, on any number of hosts.

  Dask schedules the parts of a round, repeats what a lost worker had, and moves
  partial sums from worker to worker. Results are those of `use_local` with the
  same `clients_per_part`, bit for bit. Each Dask worker has a TFF runtime of
  its own, in which as many clients run at a time as the Dask worker has
  threads. docs/scaling.md tells how to start clusters.

  Replaces the context of an earlier `use_local`, `use_workers` or `use_dask`.
  A cluster that this function starts ends with the program at the latest, as
  those workers do.

  Args:
    client_or_address: A `distributed.Client`, a cluster of Dask's, or the
      address of a scheduler such as "tcp://host:8786"; by default a cluster
      starts on this machine, of processes of one thread each.
    clients_per_part: The most clients that one call computes; 0 never cuts a
      cohort. By default 32.
    num_workers: The number of workers to start on this machine; by default that
      of its cores. Goes with no `client_or_address`.
    timeout: Seconds within which the scheduler has to answer.
    worker_timeout: Seconds to wait for a worker whenever there is none.

  Returns:
    The `distributed.Client`.

  Raises:
    ConnectionError: If the scheduler does not answer in time.
    ModuleNotFoundError: If Dask is not installed.
    ValueError: If a number is not valid, or a worker has another version of
      Python, TensorFlow Federated or this project.
  """
  clients_per_part = cutting.checked(clients_per_part)
  if num_workers is not None and (num_workers < 1 or client_or_address):
    raise ValueError(
      f"Found num_workers={num_workers}: expected 1 or more, and no other "
      "cluster beside it."
    )
  addresses.check_installed()
  from tff_fair.runtime.dask_engine import clusters, engine  # noqa: PLC0415

  with contextlib.ExitStack() as opened:
    if client_or_address is None:
      client_or_address = clusters.start_local(opened, num_workers)
    client = clusters.connect(opened, client_or_address, timeout)
    context = _DaskContext(
      engine.DaskEngine(client, worker_timeout=worker_timeout), clients_per_part
    )
    opened.callback(context.close)
    tff.framework.set_default_context(context)
    _replace_current(opened)
  return client


def builds_data() -> bool:
  """Returns whether workers can build clients' data: `DataAtWorker`s."""
  return isinstance(_chosen, _DaskContext)


_chosen: Any = None  # The context that the program has chosen.
_local_worker: workers.Worker | None = None  # Where it computes, if here.
_compiles_natively = True  # There, in the form that workers take as it is.


class ClientCount(NamedTuple):
  """How far the worker of this program is.

  Attributes:
    begun: How many clients have begun since it started; each pass over a
      client's data counts.
    at_a_time: How many work at the same time, or fewer; without limit if it is
      not positive.
  """

  begun: int
  at_a_time: int


def count_clients() -> ClientCount | None:
  """Returns how far the worker is; `None` where several workers compute.

  May be asked from another thread, in the middle of a round.
  """
  worker = _local_worker
  if isinstance(_chosen, supervised_contexts.LocalContext):
    worker = _chosen.worker
  if worker is None:
    return None
  return ClientCount(worker.clients_begun(), worker.clients_at_a_time)


def use_default() -> None:
  """Computes where the last `use_local` or `use_workers` said, else locally.

  Also where another thread said so: TFF itself would have this thread start
  anew.
  """
  if _is_chosen():
    tff.framework.set_default_context(_chosen)
  else:
    use_local()


def compiles_natively() -> bool:
  """Returns whether `use_default` leads to the native form of computations.

  Several workers, and secure sums in the clear, need another form.
  """
  return _compiles_natively or not _is_chosen()


def _is_chosen() -> bool:
  # Calls in a federated context do not return values.
  return _chosen is not None and not isinstance(
    _chosen, tff.program.FederatedContext
  )


def _choose(
  context: Any, worker: workers.Worker | None = None, *, natively: bool = False
) -> None:
  global _chosen, _local_worker, _compiles_natively
  _chosen, _local_worker, _compiles_natively = context, worker, natively


@atexit.register
def stop() -> None:
  """Stops the workers that this program started, and leaves the others.

  Happens by itself at the end of the program.
  """
  _choose(None)
  _current.close()
  workers.stop_workers()
  # Lets go of the context of before, which may be TFF's own: that one can end
  # its worker as long as the interpreter is whole.
  tff.framework.set_default_context(_NoWorkers())


class _NoWorkers(tff.framework.SyncContext):
  """The context of a program that has stopped its workers."""

  def invoke(self, comp: Any, arg: Any) -> Any:
    del comp, arg
    raise RuntimeError(connections.NO_WORKERS)


def _forget() -> None:
  _choose(None)
  # Not even closed: gRPC's connections are of no use in the child of a fork.
  _current.pop_all()
  atexit.unregister(stop)


# The workers of a program are not those of its forked children.
os.register_at_fork(after_in_child=_forget)


def _replace_current(
  opened: contextlib.ExitStack,
  worker: workers.Worker | None = None,
  *,
  natively: bool = False,
) -> None:
  context = tff.framework.get_context_stack().current
  _choose(context, worker, natively=natively)
  former = _current.pop_all()
  _current.enter_context(opened.pop_all())
  former.close()


def _check_number(name: str, number: int, *, least: int) -> None:
  if number < least:
    raise ValueError(f"Expected {name} of {least} or more: {number}.")
