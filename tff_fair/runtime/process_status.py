"""What Linux tells of a running process, by its id; 0 after its end."""

import contextlib
import os
import pathlib


def memory_bytes(pid: int) -> int:
  """Returns the memory that a process takes."""
  return 1024 * _status(pid, "VmRSS")


def num_threads(pid: int) -> int:
  """Returns the number of threads of a process."""
  return _status(pid, "Threads")


def num_sockets(pid: int) -> int:
  """Returns the number of open sockets of a process."""
  count = 0
  with contextlib.suppress(OSError):
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
      with contextlib.suppress(OSError):  # It has just been closed.
        count += os.readlink(descriptor).startswith("socket:")
  return count


def cpu_seconds(pid: int) -> float:
  """Returns the processor time that a process has used."""
  try:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
  except OSError:
    return 0.0
  # The name of the program, the second field, may hold spaces.
  user, system = stat.rpartition(") ")[2].split()[11:13]
  return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> int:
  """Returns a number of the process's status; 0 if it does not say."""
  try:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
  except OSError:
    return 0
  for line in text.splitlines():
    if line.startswith(f"{name}:"):
      return int(line.split()[1])
  return 0
