"""Keeps one worker running for programs on this host and on others.

TFF's worker keeps what a program left in it, threads and memory, when that
program is killed. So it is started again when it has grown and no program has
been connected for some seconds, and when it takes more memory than allowed.

It listens on a socket of this program (see `private_socket`): on the address
that the user chose, where TFF's worker itself would listen on all. The socket
stays open when a worker ends. Programs that connect meanwhile wait for the next
one, and send again what they need.
"""

import socket
import time
from collections.abc import Callable
from typing import Self

from tff_fair.runtime import private_socket, worker_start, workers

LOOPBACK = "127.0.0.1"

_SECONDS_ALONE = 10.0
# A connection that has ended leaves a thread or two, an executor more of them.
_THREADS_OF_NOBODY = 2
_BYTES_OF_NOBODY = 2**24
# A worker between two calls uses no processor time.
_SECONDS_OF_QUIET = 0.2
_CPU_SECONDS_OF_QUIET = 0.02
_SECONDS_TO_WAIT_FOR_QUIET = 60.0
_SECONDS_OF_A_SHORT_LIFE = 5.0
_MOST_SHORT_LIVES = 3
# A host that has vanished sends no end of its connections.
_KEEPALIVE = (
  (socket.TCP_KEEPIDLE, 30),
  (socket.TCP_KEEPINTVL, 10),
  (socket.TCP_KEEPCNT, 3),
)


class Service:
  """A worker at an address; another one takes its place when it must.

  Attributes:
    address: Where programs reach it, as "host:port".
  """

  def __init__(
    self,
    *,
    host: str | None,
    port: int,
    memory_limit: int | None,
    say: Callable[[str], None],
  ) -> None:
    """Starts the worker.

    Args:
      host: The name or number of the network address to listen on; by default
        this machine alone can reach the worker, if the system allows that.
      port: The TCP port; 0 is a free one.
      memory_limit: Bytes above which another worker takes its place.
      say: Takes a line about a worker that is replaced.

    Raises:
      OSError: If the address cannot be had, or the system does not allow to
        listen on one address alone.
      RuntimeError: If the worker ends instead of getting ready.
      ValueError: If a new worker takes more memory than allowed.
    """
    self._memory_limit = memory_limit
    self._say = say
    self._listening: socket.socket | None = _listen(host or LOOPBACK, port)
    self._port: int = self._listening.getsockname()[1]
    self.address = _address(host or LOOPBACK, self._port)
    try:
      self._worker = self._start()
    except private_socket.PrivateSocketError as error:
      self._listening.close()
      if host is not None:
        raise
      worker_start.warn_of_others(str(error))
      self._listening = None
      self._worker = self._start()
    self._num_short_lives = 0
    self._begin()
    if memory_limit is not None and self._fresh_bytes > memory_limit:
      self.close()
      raise ValueError(
        f"a worker that has done nothing takes {megabytes(self._fresh_bytes)}"
      )

  @property
  def pid(self) -> int:
    """The process of the worker."""
    return self._worker.pid

  def _start(self) -> workers.Worker:
    if self._listening is None:
      return worker_start.start_worker(self._port)
    return worker_start.start_worker_on(self._listening, self.address)

  def _begin(self) -> None:
    """Notes how a worker is that has done nothing yet."""
    self._fresh_bytes = self._worker.memory_bytes()
    self._fresh_threads = self._worker.num_threads()
    self._fresh_sockets = self._worker.num_sockets()
    self._start_time = self._last_visit = time.monotonic()
    self._large_since: float | None = None

  def look(self) -> None:
    """Replaces the worker if it must be; to be called every second or so.

    Raises:
      RuntimeError: If one worker after the other ends at once.
    """
    now = time.monotonic()
    if not self._worker.is_running:
      self._replace_ended()
    elif self._worker.num_sockets() > self._fresh_sockets:
      self._last_visit = now
      self._look_at_memory(now)
    elif now - self._last_visit > _SECONDS_ALONE and self._has_grown():
      self._replace()

  def _has_grown(self) -> bool:
    return (
      self._worker.num_threads() > self._fresh_threads + _THREADS_OF_NOBODY
      or self._worker.memory_bytes() > self._fresh_bytes + _BYTES_OF_NOBODY
    )

  def _look_at_memory(self, now: float) -> None:
    found = self._worker.memory_bytes()
    if self._memory_limit is None or found <= self._memory_limit:
      self._large_since = None
      return
    self._large_since = self._large_since or now
    if not self._is_quiet() and (
      now - self._large_since < _SECONDS_TO_WAIT_FOR_QUIET
    ):
      return
    self._say(
      f"{self.address}: the worker takes {megabytes(found)}, more than the "
      f"{megabytes(self._memory_limit)} of the limit. Another one takes its "
      "place; programs send it what it needs."
    )
    self._replace()

  def _is_quiet(self) -> bool:
    before = self._worker.cpu_seconds()
    time.sleep(_SECONDS_OF_QUIET)
    return self._worker.cpu_seconds() - before < _CPU_SECONDS_OF_QUIET

  def _replace_ended(self) -> None:
    is_short = time.monotonic() - self._start_time < _SECONDS_OF_A_SHORT_LIFE
    self._num_short_lives = self._num_short_lives + 1 if is_short else 0
    if self._num_short_lives == _MOST_SHORT_LIVES:
      self._worker.check_running()
    self._say(
      f"{self.address}: {self._worker.tell_of_end()} Another one takes its "
      "place."
    )
    self._replace()

  def _replace(self) -> None:
    self._worker.stop()
    self._worker = self._start()
    self._begin()

  def close(self) -> None:
    """Ends the worker, and listens no longer."""
    self._worker.stop()
    if self._listening is not None:
      self._listening.close()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    self.close()


def megabytes(num_bytes: int) -> str:
  """Returns a number of bytes in words."""
  return f"{num_bytes / 2**20:,.0f} MiB"


def _listen(host: str, port: int) -> socket.socket:
  """Listens on one address.

  Raises:
    OSError: If it cannot be had.
  """
  family, kind, protocol, _, place = socket.getaddrinfo(
    host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
  )[0]
  listening = socket.socket(family, kind, protocol)
  try:
    # Linux hands all these on to the connections.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in _KEEPALIVE:
      listening.setsockopt(socket.IPPROTO_TCP, option, value)
    listening.bind(place)
    private_socket.listen(listening)
  except BaseException:
    listening.close()
    raise
  return listening


def _address(host: str, port: int) -> str:
  """Returns where programs reach a socket that is bound to a host."""
  if host in ("0.0.0.0", "::"):  # All addresses: programs need one.
    host = socket.gethostname()
  return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
