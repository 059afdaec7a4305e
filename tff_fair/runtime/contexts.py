"""Contexts that a program chooses: where its computations run."""

import asyncio
import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_fair.runtime import (
  chosen_context,
  connections,
  private_tff,
  supervised_contexts,
  worker_addresses,
  workers,
)
from tff_fair.runtime.parts import cohort_cuts, worker_pool

_SECONDS_TO_CLOSE = 1.0


def use_local(
  *,
  exact: bool = False,
  clients_per_part: int | None = None,
  default_num_clients: int = 0,
  max_concurrent_computation_calls: int | None = None,
  stream_structs: bool = False,
  simulate_secure_sums: bool = False,
  program: bool = False,
  keep_memory: bool = True,
  worker_environment: Mapping[str, str] | None = None,
  timeout: float = 60.0,
) -> None:
  """Computes in a worker process of this program, on this machine.

  Replaces the context of an earlier `use_local` or `use_workers`, and stops the
  worker that it started.

  Args:
    exact: Whether to leave each computation to TFF's own executors: nothing is
      rewritten, cut or kept. Several times slower; a way to check a doubt.
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
    program: Whether calls return references to values yet to come, instead of
      values, as programs of `tff.program` and `tff.learning.programs` expect:
      they ask for a `tff.program.FederatedContext`.
    keep_memory: Whether this program, like the worker, keeps the memory it
      frees for the next round (up to 1 GiB), for speed. Lasts until it ends.
    worker_environment: Variables to set for the worker, over those of this
      program and the defaults (see `start_worker`).
    timeout: Seconds within which the worker has to be ready.

  Raises:
    RuntimeError: If the worker ends instead of getting ready.
    TimeoutError: If it does not get ready in time.
    ValueError: If `clients_per_part` is below 0, or asks for parts beside
      `exact`.
  """
  if exact:
    if clients_per_part:
      raise ValueError(
        "Expected no clients_per_part with exact=True, which cuts nothing: "
        f"{clients_per_part}."
      )
    clients_per_part = 0
  clients_per_part = cohort_cuts.checked(clients_per_part)
  connections.check_not_forked()
  if keep_memory:
    workers.keep_freed_memory()
  with contextlib.ExitStack() as opened:
    local = supervised_contexts.LocalContext(
      opened,
      clients_per_part,
      plain=exact,
      default_num_clients=default_num_clients,
      stream_structs=stream_structs,
      simulate_secure_sums=simulate_secure_sums,
      max_concurrent_computation_calls=max_concurrent_computation_calls,
      environment=worker_environment,
      timeout=timeout,
    )
    tff.framework.set_default_context(
      tff.program.NativeFederatedContext(
        supervised_contexts.AsynchronousContext(local)
      )
      if program
      else local
    )
    chosen_context.replace(opened, local, natively=not simulate_secure_sums)


def use_default() -> None:
  """Computes where the last `use_local` or `use_workers` said, else locally.

  Also where another thread said so: TFF itself would have this thread start
  anew.
  """
  if not chosen_context.use():
    use_local()


def use_workers(
  addresses: Sequence[str],
  clients_per_part: int | None = None,
  *,
  stream_structs: bool = False,
  simulate_secure_sums: bool = False,
  timeout: float = 10.0,
  straggler_timeout: float | None = None,
) -> None:
  """Computes in several workers, each of which takes a part of the clients.

  A worker is `python -m binaries.worker` on any host, TFF's own `worker_binary
  --port=...`, or one that `start_worker` started. They are left running.
  A program that reaches the port of a worker can make it do anything:
  docs/security.md tells how to keep others out.

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
    stream_structs: Whether to send the parts of a structure one by one; needed
      where one message would pass 2 GiB.
    simulate_secure_sums: As for `use_local`.
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
  clients_per_part = cohort_cuts.checked(clients_per_part)
  connect = functools.partial(
    connections.RemoteWorker,
    timeout=timeout,
    stream_structs=stream_structs,
    plain=not private_tff.check(),
  )
  with contextlib.ExitStack() as opened:
    members: list[connections.RemoteWorker] = []
    # Does not wait long for those out of reach.
    opened.callback(
      lambda: connections.close_all([worker.leave() for worker in members])
    )
    for address in addresses:
      members.append(connect(address))
    context = supervised_contexts.PartsContext(
      worker_pool.WorkerPool(
        members, timeout=timeout, straggler_timeout=straggler_timeout
      ),
      clients_per_part,
      simulate_secure_sums=simulate_secure_sums,
    )
    opened.callback(context.close, patience=_SECONDS_TO_CLOSE)
    tff.framework.set_default_context(context)
    chosen_context.replace(opened, natively=not simulate_secure_sums)


def use_dask(
  client_or_address: Any = None,
  clients_per_part: int | None = None,
  *,
  num_workers: int | None = None,
  simulate_secure_sums: bool = False,
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
    simulate_secure_sums: As for `use_local`.
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
  clients_per_part = cohort_cuts.checked(clients_per_part)
  if num_workers is not None and (num_workers < 1 or client_or_address):
    raise ValueError(
      f"Found num_workers={num_workers}: expected 1 or more, and no other "
      "cluster beside it."
    )
  worker_addresses.check_dask_installed()
  from tff_fair.runtime.dask_engine import (  # noqa: PLC0415
    clusters,
    scheduled_calls,
  )

  with contextlib.ExitStack() as opened:
    if client_or_address is None:
      client_or_address = clusters.start_local(opened, num_workers)
    client = clusters.connect(opened, client_or_address, timeout)
    context = supervised_contexts.PartsContext(
      scheduled_calls.DaskEngine(client, worker_timeout=worker_timeout),
      clients_per_part,
      simulate_secure_sums=simulate_secure_sums,
    )
    opened.callback(context.close)
    tff.framework.set_default_context(context)
    chosen_context.replace(opened, ask=client.run)
  return client


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
  worker = connections.RemoteWorker(
    address, timeout=timeout, plain=not private_tff.check()
  )
  try:
    with tff.framework.get_context_stack().install(
      _Waiting(worker, call_timeout)
    ):
      yield
  finally:
    connections.close_all([worker.leave()])


class _Waiting(tff.framework.SyncContext):
  """Waits for the results of a worker."""

  def __init__(
    self, worker: connections.RemoteWorker, call_timeout: float | None
  ) -> None:
    self._worker = worker
    self._call_timeout = call_timeout

  def invoke(self, comp: Any, arg: Any) -> Any:
    computed = self._worker.submit(comp, arg)
    try:
      return computed.result(self._call_timeout)
    except (TimeoutError, grpc.RpcError):
      problem = asyncio.run(self._worker.pulse.problem())
      if problem is None:
        raise
      raise ConnectionError(
        f"The worker at {self._worker.address} {problem}."
      ) from None
