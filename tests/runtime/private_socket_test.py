"""Tests that no other user reaches a worker, or finds a way to it."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest

from tff_fair import runtime
from tff_fair.runtime import become_worker, private_socket, worker_start

NOBODY = 65534  # The id of the user `nobody`, and of its group.
LISTENING = "0A"  # The state of a socket in /proc/net/tcp.

# Answers one connection: of which kind its socket is, and why it has no other.
SERVER = """
import os, select, socket
server = socket.create_server(("", 0))
kind = socket.socket(fileno=os.dup(server.fileno())).family.name
select.select([server], [], [])  # Accepting does not wait, as gRPC wants.
connection, _ = server.accept()
try:
  socket.create_server(("", 0))
except OSError as error:
  connection.send(f"{kind}, {error.strerror}".encode())
"""

# Says how it ends if a user connects in several ways.
CONNECTING = """
import os, socket, sys
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
for path in sys.argv[2:]:
  try:
    socket.socket(socket.AF_UNIX).connect(path)
    print("connected")
  except OSError as error:
    print(type(error).__name__)
"""


def become(command, channel):
  """Returns a command that becomes another one, as a worker does."""
  return [
    *(sys.executable, "-IS", become_worker.__file__),
    *(str(os.getpid()), str(channel.fileno()), *command),
  ]


def keep_waiting_until(deadline):
  def keep_waiting():
    if time.monotonic() > deadline:
      raise TimeoutError

  return keep_waiting


def serve(private):
  """Starts the server, and has it listen on a private socket."""
  server = subprocess.Popen(
    become([sys.executable, "-c", SERVER], private.channel),
    pass_fds=[private.channel.fileno()],
  )
  private.give(keep_waiting_until(time.monotonic() + 30.0))
  return server


def path_of(address):
  return address.removeprefix("unix:")


def sockets_of(pid):
  """Returns the inodes of a process's sockets."""
  found = set()
  for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
    try:
      name = os.readlink(descriptor)
    except FileNotFoundError:  # The process has just closed it.
      continue
    if match := re.fullmatch(r"socket:\[(\d+)\]", name):
      found.add(match[1])
  return found


def tcp_ports(pid):
  """Returns the local addresses at which a process listens for TCP."""
  rows = [
    line.split()
    for name in ("tcp", "tcp6")
    if (table := pathlib.Path(f"/proc/{pid}/net/{name}")).exists()
    for line in table.read_text().splitlines()[1:]
  ]
  mine = sockets_of(pid)
  return [row[1] for row in rows if row[3] == LISTENING and row[9] in mine]


@pytest.fixture(scope="module", autouse=True)
def allowed():
  """Skips where the system offers no private sockets."""
  try:
    runtime.start_worker(private=True).stop()
  except private_socket.PrivateSocketError as error:
    pytest.skip(f"This system does not keep others out: {error}.")


def test_no_port_is_open():
  # That of all tests, then one of our own.
  (local,) = runtime.worker_pids()
  assert tcp_ports(local) == []
  with runtime.start_worker() as worker:
    assert tcp_ports(worker.pid) == []
    assert worker.address.startswith("unix:/proc/")
    with pytest.raises(RuntimeError, match=r"start_worker\(port=\.\.\.\)"):
      _ = worker.port


def test_a_port_is_open_to_all_where_the_caller_asks_for_it():
  with runtime.start_worker(private=False) as worker:
    (address,) = tcp_ports(worker.pid)
    assert int(address.split(":")[1], 16) == worker.port


def test_a_port_is_not_private():
  with pytest.raises(ValueError, match=r"private=True.*port=4000"):
    runtime.start_worker(4000, private=True)


@pytest.mark.skipif(os.getuid() != 0, reason="Only root can be another user.")
def test_other_users_cannot_connect():
  with runtime.start_worker() as worker:
    way = path_of(worker.address)
    # A child inherits the way, and keeps it when it becomes another user.
    ways = [way, re.sub(r"/proc/\d+/", "/proc/self/", way)]
    for user, outcome in ((NOBODY, "PermissionError"), (0, "connected")):
      program = subprocess.run(
        [sys.executable, "-IS", "-c", CONNECTING, str(user), *ways],
        pass_fds=[int(way.rpartition("/")[2])],
        capture_output=True,
        text=True,
        check=True,
      )
      assert program.stdout.split() == [outcome] * 2


def test_a_server_gets_the_socket_and_can_open_no_other():
  with private_socket.PrivateSocket() as private:
    server = serve(private)
  with socket.socket(socket.AF_UNIX) as client:
    client.connect(path_of(private.address))
    answer = client.recv(1000).decode()
  assert server.wait(timeout=10.0) == 0
  assert answer == "AF_UNIX, Function not implemented"


def test_nothing_stays_in_a_folder_whose_path_may_be_long(
  tmp_path, monkeypatch
):
  folder = tmp_path / ("long" * 50)
  folder.mkdir()
  monkeypatch.setattr("tempfile.tempdir", str(folder))
  with private_socket.PrivateSocket() as private:
    assert list(folder.iterdir()) == []
    with socket.socket(socket.AF_UNIX) as client:
      client.connect(path_of(private.address))


def test_the_way_to_a_worker_leads_to_no_other():
  with runtime.start_worker() as first:
    pass
  with (
    runtime.start_worker() as second,
    socket.socket(socket.AF_UNIX) as client,
  ):
    assert second.address != first.address
    with pytest.raises(ConnectionRefusedError):
      client.connect(path_of(first.address))


def test_a_kernel_that_refuses_is_told():
  # A process has one such filter at most.
  with (
    private_socket.PrivateSocket() as outer,
    private_socket.PrivateSocket() as inner,
  ):
    command = become(become(["/bin/true"], inner.channel), outer.channel)
    channels = [each.channel.fileno() for each in (outer, inner)]
    process = subprocess.Popen(command, pass_fds=channels)
    with pytest.raises(private_socket.PrivateSocketError, match="busy"):
      inner.give(keep_waiting_until(time.monotonic() + 30.0))
    process.wait(timeout=10.0)


def test_where_it_is_not_allowed_one_line_says_so(monkeypatch, capsys):
  def refuse(self, keep_waiting):
    del self, keep_waiting
    raise private_socket.PrivateSocketError("not permitted")

  monkeypatch.setattr(private_socket.PrivateSocket, "give", refuse)
  worker_start.warn_of_others.cache_clear()
  for _ in range(2):  # Said once.
    with runtime.start_worker() as worker:
      assert len(tcp_ports(worker.pid)) == 1
      assert worker.address == f"127.0.0.1:{worker.port}"
  (line,) = capsys.readouterr().err.splitlines()
  assert "docs/security.md" in line
  assert "(not permitted)" in line
  before = runtime.worker_pids()
  with pytest.raises(OSError, match="permitted"):
    runtime.start_worker(private=True)
  assert runtime.worker_pids() == before
