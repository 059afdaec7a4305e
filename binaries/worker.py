"""Runs a worker that computes for programs on this host, or on others.

It prints its address once it answers; give that to `--workers` of a training.
It frees what programs leave that are killed, and ends on Ctrl-C or SIGTERM.
"""

import math
import os
import re
import time

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair.experiments import progress
from tff_fair.runtime import serving

_SECONDS_BETWEEN_LOOKS = 1.0
_FLAGS = command_line.Flags()
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_PORT = _FLAGS.integer(
  "port",
  0,
  "The TCP port to listen on; 0 is a free one.",
  lower_bound=0,
  upper_bound=65535,
)
_HOST = _FLAGS.text(
  "host",
  None,
  "The network address to listen on, such as that of a private network; "
  "0.0.0.0 is all of them. By default programs on this machine alone reach the "
  "worker. A program that reaches it can do all that you can: see "
  "docs/security.md.",
)
_MEMORY_LIMIT = _FLAGS.text(
  "memory_limit",
  None,
  "The memory above which another worker takes the place of this one, as 4G or "
  "512M, between two calls where possible. By default there is no limit.",
)
_END_WITH_PARENT = _FLAGS.switch(
  "end_with_parent",
  True,
  "End when the process that started this program ends; --noend_with_parent "
  "goes on, as under nohup.",
)


def main() -> None:
  """Runs a worker until the program is told to end."""
  parent = os.getppid()
  with _open() as service:
    print(service.address, flush=True)
    while not _END_WITH_PARENT.value or os.getppid() == parent:
      time.sleep(_SECONDS_BETWEEN_LOOKS)
      service.look()


def _open() -> serving.Service:
  """Returns the worker."""
  host, limit = _HOST.value, _memory_limit()
  if host is not None and not host.strip():
    raise UsageError("--host: is empty; name an address or leave it out.")
  try:
    return serving.Service(
      host=host,
      port=int(_PORT.value),
      memory_limit=limit,
      say=progress.say,
    )
  except OSError as error:
    flag = "host" if host is not None else "port"
    raise UsageError(
      f"--{flag}: cannot listen there: {error.strerror or error}. Choose "
      "another address or port; --port=0 is a free one."
    ) from error
  except UnicodeError as error:
    raise UsageError(
      f"--host={host!a:.60}: is no name of a host: {error}."
    ) from error
  except ValueError as error:
    raise UsageError(
      f"--memory_limit: {error}; give a higher limit."
    ) from error


def _memory_limit() -> int | None:
  """Returns the bytes that the worker may take, if there is a limit."""
  if _MEMORY_LIMIT.value is None:
    return None
  text = _MEMORY_LIMIT.value.strip()
  match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
  found = 0.0
  if match is not None:
    found = float(match[1]) * _UNITS[match[2].upper()]
  if not 0 < found < math.inf:
    raise UsageError(
      f"--memory_limit={text}: expected a number of bytes, such as 4G or 512M."
    )
  return int(found)


PROGRAM = _FLAGS.program(
  main, __doc__, "Worker: where it listens, and how long it lives."
)
run = PROGRAM.run  # The console script tff-fair-worker.


if __name__ == "__main__":
  run()
