"""A Python that has imported TensorFlow Federated already.

An import takes five seconds of a processor, which is most of a short program.
Here one process imports it, and each program is a fork of that process, with
its own arguments, variables, folder and streams, and with Python's usual end.
It is for tests of programs that do not test how programs start.

`shared` yields the path of an executable that stands for `sys.executable`. It
hands its arguments to the process, passes signals on, and ends as the program.
"""

import contextlib
import fcntl
import gc
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

_WORDS = 2**20  # The most bytes of a program's arguments and variables.
# The stand-in imports little, since every program waits for its start.
_STAND_IN = """\
#!{python} -IS
import os, signal, socket, sys
sys.path.insert(0, {folder!r})
import json

def pass_on(number, frame):
  try:
    (os.killpg if os.getpgrp() == os.getpid() else os.kill)(pid, number)
  except ProcessLookupError:
    pass

server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {words})
server.connect({address!r})
asked = dict(
  arguments=sys.argv[1:],
  variables=dict(os.environ),
  folder=os.getcwd(),
  leads_group=os.getpgrp() == os.getpid(),
  ignored=[n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
           if signal.getsignal(n) is signal.SIG_IGN],
)
signals = {{signal.SIGINT, signal.SIGTERM, signal.SIGHUP}}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
pid = int(server.recv(100))
for number in signals - set(asked["ignored"]):
  signal.signal(number, pass_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
status = int(server.recv(100))
if status < 0:
  signal.signal(-status, signal.SIG_DFL)
  os.kill(os.getpid(), -status)
os._exit(status)
"""


@contextlib.contextmanager
def shared(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields the path of the stand-in; starts the process if there is none."""
  folder.mkdir(mode=0o700, exist_ok=True)
  executable, pipe = folder / "python", folder / "users"
  with (folder / "lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
      user = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # Nobody reads the pipe: there is no process.
      server = _start(executable, pipe)
      user = os.open(pipe, os.O_WRONLY)
      assert server.stdout is not None
      with server.stdout as output:
        assert output.readline() == b"ready\n"
  try:
    yield executable
  finally:
    # The process ends when its last user does; nobody waits for its end.
    os.close(user)


def _start(executable: pathlib.Path, pipe: pathlib.Path) -> subprocess.Popen:
  """Writes the stand-in; starts a process that reads `pipe` until it closes."""
  folder, address = executable.parent, executable.with_name("socket")
  for path in (address, pipe):
    path.unlink(missing_ok=True)
  os.mkfifo(pipe)
  executable.write_text(
    _STAND_IN.format(
      python=sys.executable,
      folder=str(folder),
      address=str(address),
      words=_WORDS,
    )
  )
  executable.chmod(0o755)
  variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
  with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as users:
    return subprocess.Popen(
      [sys.executable, __file__, str(address)],
      cwd=folder,
      env={**variables, "TF_CPP_MIN_LOG_LEVEL": "3"},
      stdin=users,
      stdout=subprocess.PIPE,
    )


class _Server:
  """Forks a program for each connection, and reports how it ended."""

  def __init__(self, address: str) -> None:
    self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    self._listener.bind(address)
    self._listener.listen(100)
    # Maps the descriptor of a program's process to its id and connection.
    self._programs: dict[int, tuple[int, socket.socket]] = {}

  def serve(self) -> list[str] | None:
    """Forks programs; returns its arguments in each fork, None at the end."""
    print("ready", flush=True)
    while True:
      askers = {c.fileno(): d for d, (_, c) in self._programs.items()}
      ready, _, _ = select.select(
        [0, self._listener, *self._programs, *askers], [], []
      )
      if 0 in ready:
        for pid, _ in self._programs.values():
          os.kill(pid, signal.SIGKILL)
        return None
      for descriptor in {d for d in ready if d in self._programs}:
        self._tell(descriptor)
      for descriptor in {askers[d] for d in ready if d in askers}:
        if descriptor in self._programs:  # The connection has closed.
          self._kill(descriptor)
      if self._listener in ready:
        connection, _ = self._listener.accept()
        if (arguments := self._fork(connection)) is not None:
          return arguments

  def _tell(self, descriptor: int) -> None:
    pid, connection = self._programs.pop(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(descriptor)
    with connection, contextlib.suppress(OSError):
      connection.send(str(status).encode())

  def _kill(self, descriptor: int) -> None:
    pid, connection = self._programs.pop(descriptor)
    leads_group = os.getpgid(pid) == pid
    (os.killpg if leads_group else os.kill)(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(descriptor)
    connection.close()

  def _fork(self, connection: socket.socket) -> list[str] | None:
    content, streams, _, _ = socket.recv_fds(connection, _WORDS, 3)
    asked = json.loads(content)
    pid = os.fork()
    if pid:
      for stream in streams:
        os.close(stream)
      self._programs[os.pidfd_open(pid)] = pid, connection
      connection.send(str(pid).encode())
      return None
    self._listener.close()
    for descriptor, (_, other) in self._programs.items():
      os.close(descriptor)
      other.close()
    connection.close()
    if asked["leads_group"]:
      os.setsid()
    for number in asked["ignored"]:
      signal.signal(number, signal.SIG_IGN)
    for number, stream in enumerate(streams):
      os.dup2(stream, number)
      os.close(stream)
    os.environ.clear()
    os.environ.update(asked["variables"])
    os.chdir(asked["folder"])
    found: list[str] = asked["arguments"]
    return found


def _run(words: list[str]) -> None:
  """Runs a program as `python WORDS` would."""
  sys.orig_argv = ["python", *words]
  is_safe = False
  while words[0] in ("-u", "-B", "-P"):
    is_safe |= words[0] == "-P"
    words = words[1:]
  kind, *rest = words
  sys.path[0] = os.getcwd() if kind == "-m" else ""
  if kind not in ("-c", "-m"):
    sys.path[0] = os.path.dirname(os.path.realpath(kind))
  if is_safe:
    del sys.path[0]
  sys.path[not is_safe : 0] = filter(
    None, os.environ.get("PYTHONPATH", "").split(os.pathsep)
  )
  if kind == "-c":
    sys.argv = ["-c", *rest[1:]]
    names = vars(sys.modules["__main__"])
    for name in [n for n in names if not n.startswith("__")]:
      del names[name]
    del names["__file__"]
    exec(compile(rest[0], "<string>", "exec"), names)
  elif kind == "-m":
    sys.argv = ["-m", *rest[1:]]
    runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
  elif kind.startswith("-"):
    raise ValueError(f"found python {kind}, expected -c, -m or a file.")
  else:
    sys.argv = [kind, *rest]
    runpy.run_path(kind, run_name="__main__")


def _import() -> None:
  """Imports what programs need, except the project, which may be a copy."""
  import matplotlib.figure  # noqa: F401, PLC0415
  import pandas as pd  # noqa: F401, PLC0415
  import sklearn.datasets  # noqa: F401, PLC0415
  import tensorflow_federated  # noqa: F401, PLC0415


if __name__ == "__main__":
  # Programs must not import modules from this file's folder.
  sys.path.pop(0)
  _import()
  gc.freeze()  # The forks share the memory that the collector leaves alone.
  if (words := _Server(sys.argv[1]).serve()) is None:
    os._exit(0)  # At a normal exit, TFF would complain.
  _run(words)
