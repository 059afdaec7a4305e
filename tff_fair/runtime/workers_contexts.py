"""Contexts that compute in several workers, on any hosts."""

import contextlib
import functools
from collections.abc import Sequence

import tensorflow_federated as tff

from tff_fair.runtime import (
  chosen_context,
  connections,
  private_tff,
  worker_addresses,
)
from tff_fair.runtime.parts import context as parts_context
from tff_fair.runtime.parts import cutting, remote_worker, worker_pool

_SECONDS_TO_CLOSE = 1.0


def use_workers(
  addresses: Sequence[str],
  clients_per_part: int | None = None,
  *,
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
  clients_per_part = cutting.checked(clients_per_part)
  connect = functools.partial(
    _remote_worker,
    timeout=timeout,
    stream_structs=stream_structs,
    plain=not private_tff.check(),
  )
  with contextlib.ExitStack() as opened:
    members: list[remote_worker.RemoteWorker] = []
    pool = worker_pool.WorkerPool(
      members, timeout=timeout, straggler_timeout=straggler_timeout
    )
    opened.callback(pool.close)
    for address in addresses:
      members.append(connect(address))
    context = parts_context.PartsContext(pool, clients_per_part)
    opened.callback(context.close, patience=_SECONDS_TO_CLOSE)
    tff.framework.set_default_context(context)
    chosen_context.replace(opened, natively=True)


def _remote_worker(
  address: str, *, timeout: float, stream_structs: bool, plain: bool
) -> remote_worker.RemoteWorker:
  """Returns a worker that is reached now; see `use_workers`."""
  connect = functools.partial(
    connections.WorkerExecutors,
    address,
    timeout=timeout,
    stream_structs=stream_structs,
    plain=plain,
  )
  return remote_worker.RemoteWorker(
    address,
    connect=connect,
    create_context=connections.execution_context,
    timeout=timeout,
  )
