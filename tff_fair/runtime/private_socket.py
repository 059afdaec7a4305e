"""A worker that this user's programs on this machine alone can reach.

TFF's worker knows one way to listen: on a TCP port of every network interface,
for any program. So the kernel stops it there, at its call of `listen`
(seccomp, user notification), and this program puts another socket in the place
of the worker's: a Unix socket, which listens already. The worker's calls after
that one work on it, and gRPC speaks over it as over any other. No privilege is
needed, nothing is in the way of a round, and the worker cannot listen on
anything else any more.

No program finds the socket in the file system: its name is gone before the
worker has it. Connections go through this program's descriptor of it,
/proc/PROGRAM/fd/NUMBER, which the kernel opens to the same user alone. Nothing
is left behind, however the program ends.

Sources: seccomp(2), seccomp_unotify(2), unix(7), proc_pid_fd(5). Linux 5.9.
"""

import fcntl
import os
import select
import socket
import struct
import tempfile
from collections.abc import Callable
from typing import Self

# From <linux/seccomp.h>: the calls, and their structures.
_NOTIF_RECV = 0xC0502100
_NOTIF_SEND = 0xC0182101
_NOTIF_ADDFD = 0x40182103
_NOTIF_SIZE = 80
_CALL = struct.Struct("=QIIiIQQ")  # id, pid, flags, call, arch, ip, argument 0
_REPLACEMENT = struct.Struct("=QIIII")  # id, flags, ours, theirs, their flags
_RESULT = struct.Struct("=QqiI")  # id, value, error, flags
_ADDFD_FLAG_SETFD = 1

_BACKLOG = 4096  # As gRPC's.
_MILLISECONDS_PER_LOOK = 50


class PrivateSocketError(OSError):
  """The kernel, or the container around, does not allow it; says why."""


class GivenSocket:
  """A listening socket that one worker gets in the place of its own.

  Attributes:
    channel: The end of a connection that the worker's process takes over; see
      `become_worker`.
  """

  def __init__(self, listening: socket.socket) -> None:
    """Takes the socket, which stays open here, too."""
    self._listening = listening
    self._ours, self.channel = socket.socketpair()

  def give(self, keep_waiting: Callable[[], None]) -> None:
    """Waits until the worker listens, and has it listen on this socket.

    Args:
      keep_waiting: Called again and again; raises when it is time to give up.

    Raises:
      PrivateSocketError: If the kernel refuses something that it takes.
    """
    self.channel.close()  # The process has it: its end shows at ours.
    _wait_for_input(self._ours.fileno(), keep_waiting)
    message, descriptors, _, _ = socket.recv_fds(self._ours, 4096, 1)
    if not descriptors:
      raise PrivateSocketError(message.decode() or "the process ended at once")
    (reports,) = descriptors
    try:
      while not _answer(reports, self._listening, keep_waiting):
        pass
    finally:
      # From now on the kernel refuses the worker to listen.
      os.close(reports)

  def close(self) -> None:
    """Leaves the worker alone."""
    self._ours.close()
    self.channel.close()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    self.close()


class PrivateSocket(GivenSocket):
  """A Unix socket for one worker, and the way to it."""

  def __init__(self) -> None:
    """Starts to listen.

    Raises:
      PrivateSocketError: If this machine has no such sockets, or no /proc.
    """
    super().__init__(socket.socket(socket.AF_UNIX))
    try:
      self._way = _listen_without_a_name(self._listening)
    except OSError as error:
      self.close()
      raise PrivateSocketError(str(error)) from error

  @property
  def address(self) -> str:
    """Where gRPC reaches the worker."""
    return f"unix:/proc/{os.getpid()}/fd/{self._way}"

  def close(self) -> None:
    """Closes this program's copy; the worker keeps its own, if it has one."""
    self._listening.close()
    super().close()


def _listen_without_a_name(listening: socket.socket) -> int:
  """Listens on a socket; returns a descriptor that is its only name.

  The descriptor stays open until the program ends: an old connection would take
  a number that comes again for the way to its worker, and reach another one.
  """
  with tempfile.TemporaryDirectory(prefix="tff_fair-") as path:
    folder = os.open(path, os.O_PATH)
    try:
      # Names of sockets are short, those of folders need not be.
      name = f"/proc/self/fd/{folder}/worker"
      listening.bind(name)
      # A forked child that becomes another user inherits the way, too.
      os.chmod(name, 0o600)
      way = os.open(name, os.O_PATH | os.O_NOFOLLOW)
    finally:
      os.close(folder)
  listen(listening)
  return way


def listen(listening: socket.socket) -> None:
  """Listens on a socket as gRPC does on its own."""
  # gRPC accepts connections until none waits.
  listening.setblocking(False)
  listening.listen(_BACKLOG)


def _answer(
  reports: int, listening: socket.socket, keep_waiting: Callable[[], None]
) -> bool:
  """Answers the worker's call of `listen` when it comes.

  Returns:
    Whether the answer has reached it: a signal may take the worker out of its
    call, which then comes again.

  Raises:
    PrivateSocketError: If the kernel cannot replace descriptors.
  """
  _wait_for_input(reports, keep_waiting)
  call = bytearray(_NOTIF_SIZE)
  try:
    fcntl.ioctl(reports, _NOTIF_RECV, call)
    number, *_, theirs = _CALL.unpack_from(call)
    fcntl.ioctl(
      reports,
      _NOTIF_ADDFD,
      _REPLACEMENT.pack(
        number, _ADDFD_FLAG_SETFD, listening.fileno(), theirs, os.O_CLOEXEC
      ),
    )
    fcntl.ioctl(reports, _NOTIF_SEND, _RESULT.pack(number, 0, 0, 0))
  except FileNotFoundError:  # It is no longer in this call.
    return False
  except OSError as error:
    raise PrivateSocketError(error.strerror) from error
  return True


def _wait_for_input(descriptor: int, keep_waiting: Callable[[], None]) -> None:
  arrival = select.poll()
  arrival.register(descriptor, select.POLLIN)
  # An end without input is not for us: `keep_waiting` learns of it, too.
  while not any(
    event & select.POLLIN for _, event in arrival.poll(_MILLISECONDS_PER_LOOK)
  ):
    keep_waiting()
