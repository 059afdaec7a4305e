"""Contexts that compute in a worker of this program, on this machine."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import (
  allocator,
  chosen_context,
  connections,
  native,
  private_tff,
  starting,
  supervised_contexts,
  workers,
)
from tff_fair.runtime.parts import cutting


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
      plain=exact,
    )
    compile_now = (
      native.in_the_clear if simulate_secure_sums else native.compile_now
    )
    local = supervised_contexts.LocalContext(
      executors, worker, start, clients_per_part, compile_now=compile_now
    )
    # Runs first: closing must not wait for a round that nobody awaits any more.
    opened.callback(local.close)
    tff.framework.set_default_context(
      tff.program.NativeFederatedContext(
        supervised_contexts.AsynchronousContext(local)
      )
      if program
      else local
    )
    chosen_context.replace(opened, worker, natively=not simulate_secure_sums)


def use_default() -> None:
  """Computes where the last `use_local` or `use_workers` said, else locally.

  Also where another thread said so: TFF itself would have this thread start
  anew.
  """
  if not chosen_context.use():
    use_local()


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
    opened.pop_all()
  return supervised_contexts.LocalContext(
    executors, worker, start, clients_per_part=0
  )


def _start_local(
  opened: contextlib.ExitStack,
  start: Callable[[], workers.Worker],
  *,
  plain: bool = False,
  **options: Any,
) -> tuple[workers.Worker, connections.WorkerExecutors]:
  """Returns a worker of this program, and its executors; `opened` ends both."""
  worker = opened.enter_context(start())
  executors = connections.WorkerExecutors(
    worker.address,
    process=worker,
    plain=plain or not private_tff.check(),
    **options,
  )
  opened.callback(connections.close_all, [executors])
  return worker, executors
