"""Starts workers on this machine, and waits until they can be reached."""

import contextlib
import functools
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from tff_fair.runtime import private_socket, workers

_TIMEOUT = 60.0


def start_worker(
  port: int | None = None,
  *,
  private: bool | None = None,
  max_concurrent_computation_calls: int | None = None,
  environment: Mapping[str, str] | None = None,
  timeout: float = _TIMEOUT,
) -> workers.Worker:
  """Starts a worker on this machine and waits until it can be reached.

  A worker runs whatever it is sent, without authentication, and reads and
  writes files with the rights of its user. Without a port, only programs of the
  same user on this machine reach it. With one, everybody does who reaches that
  port of this machine: trusted networks only (docs/security.md).

  Args:
    port: The TCP port to listen on, on all network interfaces.
    private: Whether only programs of this user on this machine can reach the
      worker. By default they alone can if there is no `port`; if the kernel or
      a container does not allow that, one line on stderr says so, and the
      worker listens on a free port. `True` makes that an error. `False` without
      a port takes a free one.
    max_concurrent_computation_calls: How many clients run at the same time; by
      default one for each core, without limit if it is not positive.
    environment: Variables to set for the worker, over those of this program.
      Both go over the worker's defaults, which make glibc's allocator keep
      freed memory, and give each operation one thread for every eight cores
      (TF_NUM_INTRAOP_THREADS), because clients run side by side.
    timeout: Seconds within which the worker has to listen.

  Returns:
    The worker.

  Raises:
    FileNotFoundError: If this TFF has no worker at its place.
    OSError: If `port` cannot be had, or `private` is true and this system does
      not allow it.
    RuntimeError: If the worker ends instead of listening.
    TimeoutError: If it does not listen in time.
    ValueError: If `port` is not one, or `private` is true beside it.
  """
  if private and port is not None:
    raise ValueError(
      f"Found private=True and port={port}: everybody who reaches a port "
      "reaches its worker. Give one of the two."
    )
  launch = functools.partial(
    workers.launch,
    max_concurrent_computation_calls=max_concurrent_computation_calls,
    environment=environment,
  )
  deadline = time.monotonic() + timeout
  if private or (private is None and port is None):
    try:
      with private_socket.PrivateSocket() as given:
        return _launch_with(given, given.address, launch, deadline)
    except private_socket.PrivateSocketError as error:
      if private:
        raise
      warn_of_others(str(error))
  return _start_at_port(launch, port, deadline)


def start_worker_on(listening: socket.socket, address: str) -> workers.Worker:
  """Starts a worker that listens on a socket of this program.

  Connections that come before the worker is there wait for it. The socket stays
  open when the worker ends, so another worker can take over.

  Args:
    listening: The socket; it listens.
    address: Where programs on this machine reach it.

  Raises:
    PrivateSocketError: If this system does not allow it.
    RuntimeError: If the worker ends instead of getting ready.
    TimeoutError: If it does not get ready in time.
  """
  deadline = time.monotonic() + _TIMEOUT
  with private_socket.GivenSocket(listening) as given:
    return _launch_with(given, address, workers.launch, deadline)


def _launch_with(
  given: private_socket.GivenSocket,
  address: str,
  launch: Callable[..., workers.Worker],
  deadline: float,
) -> workers.Worker:
  worker = launch(address, channel=given.channel.fileno())
  with _stopped_on_error(worker):
    given.give(lambda: _check_starting(worker, deadline))
  return worker


def _start_at_port(
  launch: Callable[..., workers.Worker], port: int | None, deadline: float
) -> workers.Worker:
  with _reserve_port(port) as reservation:
    bound_port = reservation.getsockname()[1]
    worker = launch(f"127.0.0.1:{bound_port}", port=bound_port)
    with _stopped_on_error(worker):
      while not _is_listening(bound_port):
        _check_starting(worker, deadline)
        time.sleep(0.005)
  return worker


@functools.cache  # Once a program.
def warn_of_others(reason: str) -> None:
  """Says that others reach the worker, because this system lets them."""
  print(
    "Other users of this machine, and hosts that reach it, can use the worker "
    "of this program and read its user's files: this system does not let it "
    f"keep them out ({reason}). See docs/security.md.",
    file=sys.stderr,
    flush=True,
  )


@contextlib.contextmanager
def _stopped_on_error(worker: workers.Worker) -> Iterator[None]:
  try:
    yield
  except BaseException:
    worker.stop()
    raise


def _check_starting(worker: workers.Worker, deadline: float) -> None:
  """Raises if a worker has ended, or its time to start is over."""
  worker.check_running()
  if time.monotonic() > deadline:
    raise TimeoutError(
      f"The worker (process {worker.pid}) does not listen in time. Give it a "
      "longer timeout."
    )


def _is_listening(port: int) -> bool:
  with socket.socket() as connection:
    connection.settimeout(1.0)
    return connection.connect_ex(("127.0.0.1", port)) == 0


def _reserve_port(port: int | None) -> socket.socket:
  """Binds a port so that no other program gets it before the worker listens.

  The worker itself can bind it too: gRPC servers share their ports with other
  sockets of the same user that do the same.
  """
  if port is not None:
    if not 1 <= port <= 65535:
      raise ValueError(f"Expected a port between 1 and 65535, found {port}.")
    with socket.socket() as probe:  # Not shared: fails if a program listens.
      probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      try:
        probe.bind(("", port))
      except OSError as error:
        raise OSError(
          error.errno,
          f"A worker cannot listen on port {port}: {error.strerror}. Choose "
          "another port, or none for a free one",
        ) from error
  reservation = socket.socket()
  reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
  reservation.bind(("", port or 0))
  return reservation
