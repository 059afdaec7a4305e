"""Contexts that compute in the workers of a Dask cluster."""

import contextlib
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime import chosen_context
from tff_fair.runtime.dask_engine import addresses
from tff_fair.runtime.parts import context as parts_context
from tff_fair.runtime.parts import cutting


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
    context = parts_context.PartsContext(
      engine.DaskEngine(client, worker_timeout=worker_timeout), clients_per_part
    )
    opened.callback(context.close)
    tff.framework.set_default_context(context)
    chosen_context.replace(opened, ask=client.run)
  return client
