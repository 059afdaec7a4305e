"""Looks for hostile input that escapes: a traceback, or more than one line.

  python -m benchmarks.fuzz --seconds=600 --kind=flags,files,runs,models,clients
  python -m benchmarks.fuzz --seconds=600 --kind=computations

The kind `computations` looks for results that TFF's own executors would not
give; each names the seed that repeats it:

  python -m benchmarks.fuzz --repeat=SEED

Prints how many cases there were of each kind, how they ended, and what escaped;
the exit status is 1 if anything did. The same seed gives the same cases, as
many as there is time for.
"""

import argparse
import collections
import importlib
import itertools
import pathlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.fuzzing import Case, End, files, flags, short

Cases = Callable[[random.Random, pathlib.Path], Iterator[Case]]


def _late(module: str, name: str = "cases") -> Cases:
  """Returns a kind whose module imports TensorFlow, which takes seconds."""

  def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
    found = importlib.import_module(f"benchmarks.fuzzing.{module}")
    yield from getattr(found, name)(rng, folder)

  return cases


# A kind yields cases without end, from a random generator and an empty folder.
KINDS: dict[str, Cases] = {
  "flags": flags.cases,
  "files": files.cases,
  "runs": _late("runs"),
  "models": _late("runs", "model_cases"),
  "clients": _late("clients"),
  "computations": _late("computations"),
}


class Found(NamedTuple):
  """What came of the cases of a kind.

  Attributes:
    counts: The number of cases by room and how they ended.
    escaped: What escaped, with the case, each way once.
  """

  counts: collections.Counter[tuple[str, End]]
  escaped: dict[str, str]

  def table(self) -> str:
    """Returns a line for each room, and one for all together."""
    rooms = sorted({room for room, _ in self.counts})
    return "\n".join(
      f"  {name:28} {self._numbers(of)}"
      for name, of in (*((room, [room]) for room in rooms), ("all", rooms))
    )

  def _numbers(self, rooms: Sequence[str]) -> str:
    numbers = {
      end: sum(self.counts[room, end] for room in rooms) for end in End
    }
    return ", ".join(f"{n:,} {end.value}" for end, n in numbers.items() if n)


def fuzz(
  kind: str, *, seed: int, seconds: float, most: int | None = None
) -> Found:
  """Runs cases of a kind until the time is over."""
  counts: collections.Counter[tuple[str, End]] = collections.Counter()
  escaped: dict[str, str] = {}
  with tempfile.TemporaryDirectory() as folder:
    cases = KINDS[kind](random.Random(seed), pathlib.Path(folder))
    end_time = time.monotonic() + seconds
    for case in itertools.islice(cases, most):
      if time.monotonic() > end_time:
        break
      try:
        end = case.run()
      # A case must not end the others, whatever it raises.
      except Exception as error:
        end = End.ESCAPED
        way = _way(case, error)
        escaped.setdefault(way, f"{short(str(error))} [{case.name}]")
      counts[case.room, end] += 1
    del cases  # Leaves the folder, if it went there.
  return Found(counts, escaped)


def _way(case: Case, error: Exception) -> str:
  """Returns what escaped: a difference knows it; of others, the place tells."""
  *_, last = traceback.extract_tb(error.__traceback__)
  place = f"{pathlib.Path(last.filename).name}:{last.lineno}"
  way = f"{case.room}: {type(error).__name__} in {place}"
  return str(getattr(error, "way", way))


def _repeat(seed: int) -> None:
  """Prints how each call of a computation ends."""
  computations = importlib.import_module("benchmarks.fuzzing.computations")
  for case in computations.of_seed(seed):
    try:
      print(f"{case.name}: {case.run().value}")
    # The line names each error that escapes.
    except Exception as error:
      print(f"{_way(case, error)}: {error} [{case.name}]")


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the kinds one after the other; returns the exit status."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--seconds", type=float, default=60.0, help="of each kind"
  )
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument(
    "--kind",
    default=",".join(KINDS),
    help="kinds, with commas between them",
  )
  parser.add_argument(
    "--repeat", type=int, metavar="SEED", help="a computation of that seed"
  )
  arguments = parser.parse_args(argv)
  if arguments.repeat is not None:
    _repeat(arguments.repeat)
    return 0
  kinds = arguments.kind.split(",")
  if unknown := [kind for kind in kinds if kind not in KINDS]:
    parser.error(f"--kind={unknown[0]}: unknown; valid: {', '.join(KINDS)}")
  status = 0
  for kind in kinds:
    found = fuzz(kind, seed=arguments.seed, seconds=arguments.seconds)
    num_escaped = sum(
      found.counts[key] for key in found.counts if End.ESCAPED in key
    )
    print(f"{kind}: {found.counts.total():,} cases, {num_escaped:,} escaped")
    print(found.table())
    for way, example in found.escaped.items():
      print(f"  {End.ESCAPED.value} {way}: {example}")
      status = 1
    sys.stdout.flush()
  return status


if __name__ == "__main__":
  sys.exit(main())
