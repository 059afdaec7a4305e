"""Runs a worker that computes for programs on this host, or on others.

It prints its address once it answers; give that to `--workers` of a training.
It frees what programs leave that are killed, and ends on Ctrl-C or SIGTERM.
"""

import os
import time

from binaries import command_line
from binaries.flags import worker_flags
from tff_fair.experiments import progress
from tff_fair.runtime import serving

_SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
  """Runs a worker until the program is told to end."""
  parent = os.getppid()
  with _open() as service:
    print(service.address, flush=True)
    while not worker_flags.ends_with_parent() or os.getppid() == parent:
      time.sleep(_SECONDS_BETWEEN_LOOKS)
      service.look()


def _open() -> serving.Service:
  limit = worker_flags.memory_limit()
  try:
    return serving.Service(
      host=worker_flags.host(),
      port=worker_flags.port(),
      memory_limit=limit,
      say=progress.say,
    )
  except OSError as error:
    flag = "host" if worker_flags.host() is not None else "port"
    raise command_line.UsageError(
      f"--{flag}: cannot listen there: {error.strerror or error}. Choose "
      "another address or port; --port=0 is a free one."
    ) from error
  except UnicodeError as error:
    raise command_line.UsageError(
      f"--host={worker_flags.host()!a:.60}: is no name of a host: {error}."
    ) from error
  except ValueError as error:
    raise command_line.UsageError(
      f"--memory_limit: {error}; give a higher limit."
    ) from error


PROGRAM = command_line.Program(
  main, str(__doc__), (worker_flags,), namespace=worker_flags.NAMESPACE
)
run = PROGRAM.run  # The console script tff-fair-worker.


if __name__ == "__main__":
  run()
