"""Reads the limits of this process's control group.

Containers and Slurm set such limits. Linux has two versions of control groups,
and a machine may use both. A group's limit also applies to all of its
subgroups.
"""

import contextlib
import math
import pathlib
from collections.abc import Iterator

_ROOT = pathlib.Path("/sys/fs/cgroup")
_OF_PROCESS = pathlib.Path("/proc/self/cgroup")


def cores() -> float:
  """Returns how many cores the process may use; infinity without a quota."""
  found = [math.inf]
  for folder in _folders("cpu"):
    quota = _read(folder / "cpu.max").split() or [
      *_read(folder / "cpu.cfs_quota_us").split(),
      *_read(folder / "cpu.cfs_period_us").split(),
    ]
    with contextlib.suppress(ValueError):  # The quota is "max", or is missing.
      microseconds, period = map(int, quota)
      if microseconds > 0:  # Version 1 has -1 for no quota.
        found.append(microseconds / period)
  return min(found)


def memory() -> float:
  """Returns the bytes of memory that the process may use, or infinity."""
  found = [math.inf]
  for folder in _folders("memory"):
    for name in ("memory.max", "memory.limit_in_bytes"):
      with contextlib.suppress(ValueError):
        found.append(int(_read(folder / name)))
  return min(found)


def _folders(controller: str) -> Iterator[pathlib.Path]:
  """Yields the folders of the process's group and of the groups above it."""
  for line in _read(_OF_PROCESS).splitlines():
    _, controllers, path = line.split(":", 2)
    if controllers and controller not in controllers.split(","):
      continue
    top = _ROOT / controller if controllers else _ROOT
    # In a container, the path may be the host's. Then only the top folder
    # exists.
    folder = top / path.lstrip("/")
    yield from (
      place for place in (folder, *folder.parents) if place.is_relative_to(top)
    )


def _read(path: pathlib.Path) -> str:
  """Returns the text of a file; "" if it cannot be read."""
  try:
    return path.read_text()
  except OSError:
    return ""
