"""Connects to Dask's schedulers, and starts clusters on this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import distributed

from tff_fair.runtime import threads, version
from tff_fair.runtime.dask_engine import tasks

_SECONDS_TO_CLOSE = 3.0
# The time in which a cluster must end; Dask kills busy workers after 4 s.
_SECONDS_TO_END = 30.0
# The loggers of Dask, and of its library Tornado, that set their own levels.
_LOGGERS = ("distributed", "distributed.client", "tornado.application")
# Dask warns of large values in tasks, and advises loading them in the workers.
# But a worker cannot load a model's state, which is new in each round.
_WARNING_OF_STATES = "Sending large graph"


def connect(
  resources: contextlib.ExitStack, scheduler: Any, timeout: float
) -> distributed.Client:
  """Connects to a scheduler; checks and prepares its workers."""
  warnings.filterwarnings("ignore", message=_WARNING_OF_STATES)
  client = connect_unprepared(resources, scheduler, timeout)
  try:
    check_versions(client, version.installed())
    # Keeps futures until `resources` closes: Dask drops tasks without a future.
    resources.callback(_prepare_workers(client).clear)
  except (distributed.CancelledError, OSError) as error:
    raise ConnectionError(
      f"The Dask scheduler is gone already ({_first_line(error)}). Start it "
      "again."
    ) from error
  return client


def connect_unprepared(
  resources: contextlib.ExitStack, scheduler: Any, timeout: float
) -> distributed.Client:
  """Connects to a scheduler, but neither checks nor prepares its workers."""
  if isinstance(scheduler, distributed.Client):
    client = scheduler
  else:
    resources.enter_context(_silence_logs())
    client = _client(scheduler, timeout)
    resources.callback(client.close, timeout=_SECONDS_TO_CLOSE)
  if isinstance(scheduler, distributed.LocalCluster) and scheduler.processes:
    client.register_plugin(_InterruptBlocker())
  return client


def _prepare_workers(client: distributed.Client) -> list[distributed.Future]:
  """Makes all workers import TensorFlow now; returns the tasks' futures."""
  return [
    client.submit(
      tasks.prepare, key=f"tff-prepare-{uuid.uuid4().hex}", workers=[worker]
    )
    for worker in client.nthreads()
  ]


def start_local(
  resources: contextlib.ExitStack,
  num_workers: int | None,
  *,
  limits_memory: bool = True,
) -> distributed.LocalCluster:
  """Starts a Dask cluster on this machine; `resources` will close it."""
  resources.enter_context(_silence_logs())
  folder = resources.enter_context(
    tempfile.TemporaryDirectory(
      prefix="tff_fair_dask_", ignore_cleanup_errors=True
    )
  )
  before = dict(os.environ)
  try:
    cluster = distributed.LocalCluster(
      n_workers=num_workers or threads.num_cores(),
      threads_per_worker=1,
      processes=True,
      memory_limit="auto" if limits_memory else None,
      dashboard_address="127.0.0.1:0",
      local_directory=folder,
      security=_security(),
      silence_logs=logging.CRITICAL,
    )
  except (OSError, RuntimeError) as error:
    raise ConnectionError(
      f"Dask's workers do not start on this machine ({_first_line(error)}). "
      "Ask for fewer of them, or try again."
    ) from error
  resources.callback(_close, cluster)
  # Dask sets environment variables for its workers; some would slow this
  # program.
  for name in os.environ.keys() - before.keys():
    del os.environ[name]
  return cluster


def _close(cluster: distributed.LocalCluster) -> None:
  # Workers that are still running end with this program.
  with contextlib.suppress(TimeoutError):
    cluster.close(timeout=_SECONDS_TO_END)


class _InterruptBlocker(distributed.WorkerPlugin):
  """Makes workers ignore Ctrl-C, since the program may still need them."""

  def setup(self, worker: distributed.Worker) -> None:
    """Sets the signal handler in a worker that starts."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _security() -> distributed.Security | None:
  if importlib.util.find_spec("cryptography") is not None:
    return distributed.Security.temporary()
  print(
    "Other users of this machine can use the Dask workers of this program and "
    "read its user's files: the package cryptography, which makes keys against "
    "that, is missing. See docs/security.md.",
    file=sys.stderr,
    flush=True,
  )
  return None


def _client(scheduler: Any, timeout: float) -> distributed.Client:
  # If a program listens at the address and does not answer, Dask waits forever.
  found = threads.submit(
    lambda: distributed.Client(scheduler, timeout=timeout, set_as_default=False)
  )
  try:
    return found.result(timeout + _SECONDS_TO_CLOSE)
  # Addresses, certificates and protocols raise errors of various classes.
  except Exception as error:
    raise ConnectionError(
      f"No Dask scheduler answers at {scheduler} within {timeout:g} s "
      f"({_first_line(error)}). Start one there, or check the address, the "
      "network and the certificates."
    ) from error


def check_versions(
  client: distributed.Client, expected: Mapping[str, str]
) -> None:
  """Raises `ValueError` if a worker has other versions than `expected`.

  `tasks.compute` checks the workers that join later.
  """
  found = client.run(version.installed, on_error="return")
  for worker, versions in found.items():
    if isinstance(versions, OSError):
      continue  # The worker has ended meanwhile.
    if isinstance(versions, Mapping):
      problem = tasks.version_difference(expected, versions)
    else:
      problem = f"cannot import tff_fair ({_first_line(versions)})"
    if problem is not None:
      raise ValueError(
        f"The Dask worker {worker} {problem}. Install the same versions on "
        "both."
      )


def _first_line(error: object) -> str:
  return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")


@contextlib.contextmanager
def _silence_logs() -> Iterator[None]:
  """Keeps Dask from logging messages that this program reports itself."""
  former = {name: logging.getLogger(name).level for name in _LOGGERS}
  for name in _LOGGERS:
    logging.getLogger(name).setLevel(logging.CRITICAL)
  try:
    yield
  finally:
    for name, level in former.items():
      logging.getLogger(name).setLevel(level)
