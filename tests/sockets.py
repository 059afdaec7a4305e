"""The sockets of a process, from Linux's tables."""

import contextlib
import os
import pathlib

# Maps a table to the column with a socket's number, and to the state that marks
# a listening socket.
_TABLES = {"tcp": (9, "0A"), "tcp6": (9, "0A"), "unix": (6, "00010000")}


def listening(pid: int) -> set[str]:
  """Returns the TCP and Unix sockets to which others can connect."""
  process = pathlib.Path(f"/proc/{pid}")
  held, found = set(), set()
  for descriptor in (process / "fd").iterdir():
    with contextlib.suppress(OSError):  # It may close meanwhile.
      held.add(os.readlink(descriptor))
  for kind, (number, mark) in _TABLES.items():
    for line in (process / "net" / kind).read_text().splitlines():
      words = line.split()
      if words[3] == mark:
        found.add(f"socket:[{words[number]}]")
  return held & found
