"""Run as a program: becomes a worker that ends with its parent.

A `preexec_fn` could prepare the process as well, but would run Python in a fork
of the whole program, which may deadlock on locks of TensorFlow and gRPC. So
this file is run by its path, in a process of its own that imports next to
nothing:

  python -IS become_worker.py PARENT CHANNEL WORKER ARGUMENTS...

PARENT is the program's process id. CHANNEL is a Unix socket to the program, or
"-". With a channel, the process can no longer listen on a socket by itself: the
program that holds the other end decides, see `private_socket`.
"""

import ctypes
import os
import signal
import socket
import struct
import sys

# From <linux/prctl.h>, <linux/seccomp.h>, <linux/audit.h>, <linux/filter.h>.
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
# Without the first flag, kernels before 5.16 slow the process down.
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1 << 2
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 1 << 3
_SECCOMP_RET_USER_NOTIF = 0x7FC00000
_SECCOMP_RET_ALLOW = 0x7FFF0000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_OF_CALL, _OFFSET_OF_ARCHITECTURE = 0, 4

# By machine: AUDIT_ARCH_*, and the numbers of the calls seccomp and listen.
_CALLS = {
  "x86_64": (0xC000003E, 317, 50),
  "aarch64": (0xC00000B7, 277, 201),
}


class _Program(ctypes.Structure):
  """A struct sock_fprog."""

  _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _filter(architecture: int, listen: int) -> bytes:
  """Returns a filter of calls that reports `listen` and allows all others."""
  instructions = (
    (_LOAD, 0, 0, _OFFSET_OF_ARCHITECTURE),
    (_JUMP_IF_EQUAL, 0, 3, architecture),
    (_LOAD, 0, 0, _OFFSET_OF_CALL),
    (_JUMP_IF_EQUAL, 0, 1, listen),
    (_RETURN, 0, 0, _SECCOMP_RET_USER_NOTIF),
    (_RETURN, 0, 0, _SECCOMP_RET_ALLOW),
  )
  return b"".join(struct.pack("=HBBI", *each) for each in instructions)


def _check(result: int) -> int:
  if result < 0:
    error = ctypes.get_errno()
    raise OSError(error, os.strerror(error))
  return result


def _report_listening(libc: ctypes.CDLL) -> int:
  """Has the kernel report each `listen`; returns where, a descriptor.

  Raises:
    OSError: If the kernel, or the container, does not allow it.
  """
  machine = os.uname().machine
  if machine not in _CALLS:
    raise OSError(f"not known how on {machine}")
  architecture, seccomp, listen = _CALLS[machine]
  content = _filter(architecture, listen)
  buffer = ctypes.create_string_buffer(content, len(content))
  program = _Program(len(content) // 8, ctypes.addressof(buffer))
  # The kernel asks for it, so that a filter cannot fool a setuid program.
  _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  return _check(
    libc.syscall(
      seccomp,
      _SECCOMP_SET_MODE_FILTER,
      _SECCOMP_FILTER_FLAG_SPEC_ALLOW | _SECCOMP_FILTER_FLAG_NEW_LISTENER,
      ctypes.byref(program),
    )
  )


def _main() -> None:
  parent, channel, *command = sys.argv[1:]
  libc = ctypes.CDLL(None, use_errno=True)
  libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != int(parent):  # It has ended meanwhile.
    return
  if channel != "-":
    with socket.socket(fileno=int(channel)) as program:
      try:
        reports = _report_listening(libc)
      except OSError as error:
        program.send(str(error.strerror or error).encode())
        return
      socket.send_fds(program, [b"listen"], [reports])
      os.close(reports)
  os.execv(command[0], command)


if __name__ == "__main__":
  _main()
