"""Runs benchmark programs, and times calls in turns.

Since calls take turns, a busy machine slows all of them alike.
"""

import pathlib
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from absl import app, logging

_WARM_UP = 2  # The number of calls of each function before it is timed.


def run(main: Callable[[], object]) -> None:
  """Runs a program that takes only flags, then exits."""

  def checked(argv: Sequence[str]) -> None:
    if len(argv) > 1:
      raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
    logging.set_verbosity(logging.WARNING)  # TFF logs each graph it compiles.
    main()

  app.run(checked)


def time_in_turns(
  calls: Mapping[str, Callable[[], object]],
  *,
  repetitions: int,
) -> dict[str, list[float]]:
  """Calls all functions in turn, `repetitions` times; returns their seconds."""
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for repetition in range(-_WARM_UP, repetitions):
    for name, call in calls.items():
      start = time.perf_counter()
      call()
      if repetition >= 0:
        seconds[name].append(time.perf_counter() - start)
  return seconds


def ratio_table(seconds: Mapping[str, Sequence[float]], baseline: str) -> str:
  """Returns a table of median seconds, and of median ratios to the baseline."""
  width = max(map(len, seconds))
  lines = [f"{'':{width}}  median s  x {baseline}"]
  for name, values in seconds.items():
    ratio = statistics.median(
      value / base
      for value, base in zip(values, seconds[baseline], strict=True)
    )
    lines.append(
      f"{name:{width}}  {statistics.median(values):8.4f}  {ratio:.2f}"
    )
  return "\n".join(lines)


def peak_memory_mb() -> float:
  """Returns the peak resident memory of this process in MiB (Linux)."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def current_memory_mb() -> float:
  """Returns the resident memory of this process in MiB (Linux)."""
  pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
  return pages * resource.getpagesize() / 2**20
