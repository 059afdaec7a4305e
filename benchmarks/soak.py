"""Disturbs training runs again and again, and looks whether something breaks.

Each job has a run that it starts, disturbs at a random moment and starts again,
by the same command in the same folder. A run that comes to its end must have
the results of an undisturbed run; then the next one begins.

  signal  Ctrl-C or SIGTERM: it ends, with the status by which shells know the
          signal, and leaves no traceback.
  kill    SIGKILL.
  full    A limit on the size of files, as a disk that is full: one line.

However it ends, all its processes are gone ten seconds later.

  python -m benchmarks.soak [--seconds=600] [--seed=0] [--jobs=2] [--kinds=...]

The exit status is 1 if something broke. The folders of such runs are kept.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import psutil

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SECONDS_TO_END = 10.0
_MARK = "TFF_FAIR_SOAK"
_COMMAND = (
  *(sys.executable, "-m", "binaries.train", "--algorithm=fedavg"),
  *("--task_option=num_clients=6", "--task_option=model=logistic_regression"),
  *("--total_rounds=100", "--rounds_per_evaluation=20", "--output_dir=run"),
)


class BrokenError(Exception):
  """Something is not as it must be."""


class Ended(NamedTuple):
  """A program that has ended."""

  status: int
  said: str
  seconds: float


class Program:
  """The program, started in the folder of a job."""

  def __init__(self, folder: pathlib.Path, most_bytes: int | None) -> None:
    self._mark = uuid.uuid4().hex
    self._log = folder / "log.txt"

    def prepare() -> None:
      # A shell lets its background jobs, such as this one, ignore it.
      signal.signal(signal.SIGINT, signal.SIG_DFL)
      if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    environment = {**os.environ, _MARK: self._mark, "PYTHONPATH": str(_ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    # Its output goes through a pipe: the limit on files does not hold there.
    self._process = subprocess.Popen(
      _COMMAND,
      cwd=folder,
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      start_new_session=True,
      preexec_fn=prepare,  # noqa: PLW1509
    )
    self._lines: list[str] = []
    self._reader = threading.Thread(target=self._read, daemon=True)
    self._reader.start()

  def _read(self) -> None:
    assert self._process.stdout is not None
    with self._log.open("a") as log:
      for line in self._process.stdout:
        self._lines.append(line)
        log.write(line)

  def wait(self, seconds: float) -> bool:
    """Waits so long, or to its end; returns whether it has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
      self._process.wait(seconds)
    return self._process.poll() is not None

  def send(self, number: int) -> None:
    """Sends it a signal."""
    self._process.send_signal(number)

  def pids(self) -> list[int]:
    """Returns its processes."""
    return [
      process.pid
      for process in psutil.process_iter(["environ"])
      if (process.info["environ"] or {}).get(_MARK) == self._mark
    ]

  def end(self, seconds: float) -> Ended:
    """Waits for its end."""
    start = time.monotonic()
    try:
      if not self.wait(seconds):
        raise BrokenError(f"has not ended after {seconds:.0f} s")
      while self.pids():
        if time.monotonic() > start + max(seconds, _SECONDS_TO_END):
          raise BrokenError("left a process")
        time.sleep(0.1)
      seconds_taken = time.monotonic() - start
    finally:
      for pid in self.pids():
        with contextlib.suppress(ProcessLookupError):
          os.kill(pid, signal.SIGKILL)
    self._reader.join(timeout=_SECONDS_TO_END)
    return Ended(self._process.returncode, "".join(self._lines), seconds_taken)


_LONGEST = 300.0  # For what ends by itself.
_SECONDS_OF_START = 8.0  # About; it imports and builds.
_SECONDS_OF_TRAINING = 15.0
_LIMITS_OF_FILES = (2_000, 400_000)  # In bytes.
_STATUSES = {
  signal.SIGINT: (130, -signal.SIGINT),
  signal.SIGTERM: (143, -signal.SIGTERM),
}
_TABLES = ("metrics.csv", "cohorts.csv", "client_evaluations.csv")


def _has_begun(ended: Ended) -> bool:
  """Returns whether it came to its first line; before, Python is in charge."""
  ours = (_ROOT / "binaries", _ROOT / "tff_fair")
  return "Traceback" not in ended.said or any(
    f"{path}{os.sep}" in ended.said for path in ours
  )


def _check_no_traceback(ended: Ended) -> None:
  if "Traceback" in ended.said:
    raise BrokenError(f"a traceback: {ended.said[-400:]}")


def _ends_before_a_moment(
  program: Program, folder: pathlib.Path, draw: random.Random
) -> bool:
  """Waits for a random moment; returns whether the program has ended by then.

  Half of the moments are at its start, half are while it trains.
  """
  if draw.random() < 0.5:
    return program.wait(draw.uniform(0.0, _SECONDS_OF_START))
  metrics = folder / "run" / "metrics.csv"
  start = time.time()
  while not metrics.exists() or metrics.stat().st_mtime < start:
    if program.wait(0.1):
      return True
  return program.wait(draw.uniform(0.0, _SECONDS_OF_TRAINING))


def _signal(folder: pathlib.Path, draw: random.Random) -> str:
  number = draw.choice(list(_STATUSES))
  program = Program(folder, None)
  if _ends_before_a_moment(program, folder, draw):
    return _finished(program)
  program.send(number)
  ended = program.end(_SECONDS_TO_END)
  if not _has_begun(ended):
    return f"{number.name}, before its first line"
  _check_no_traceback(ended)
  # It may come between the last line of a run and the end of the program.
  is_done = "run: done" in ended.said
  if ended.status not in _STATUSES[number] and (ended.status or not is_done):
    raise BrokenError(f"status {ended.status} after {number.name}")
  if is_done:
    return "the run was finished"
  while_it = "trains" if " saved in run;" in ended.said else "starts"
  return (
    f"{number.name} while it {while_it}, gone within "
    f"{math.ceil(ended.seconds)} s"
  )


def _kill(folder: pathlib.Path, draw: random.Random) -> str:
  program = Program(folder, None)
  if _ends_before_a_moment(program, folder, draw):
    return _finished(program)
  program.send(signal.SIGKILL)
  program.end(_SECONDS_TO_END)
  return "killed"


def _full(folder: pathlib.Path, draw: random.Random) -> str:
  program = Program(folder, draw.randint(*_LIMITS_OF_FILES))
  return _finished(program, {2: "full"})


def _finished(
  program: Program, otherwise: Mapping[int, str] = MappingProxyType({})
) -> str:
  """Waits for its end, with status 0 or another one that may be."""
  ended = program.end(_LONGEST)
  _check_no_traceback(ended)
  if ended.status not in (0, *otherwise):
    raise BrokenError(f"status {ended.status}: {ended.said[-400:]}")
  return otherwise.get(ended.status, "the run was finished")


_DISTURBANCES: dict[str, Callable[[pathlib.Path, random.Random], str]] = {
  "signal": _signal,
  "kill": _kill,
  "full": _full,
}
KINDS = tuple(_DISTURBANCES)


def _results(folder: pathlib.Path) -> list[bytes]:
  return [(folder / "run" / name).read_bytes() for name in _TABLES]


class Soak:
  """Disturbs runs, and keeps what has come of it."""

  def __init__(
    self,
    place: pathlib.Path,
    *,
    kinds: Sequence[str] = KINDS,
    seed: int = 0,
    seconds: float = math.inf,
    most: float = math.inf,
  ) -> None:
    """Trains a run without disturbances."""
    self._place = place
    self._kinds = list(kinds)
    self._seed = seed
    self._deadline = time.monotonic() + seconds
    self._left = most
    self._locked = threading.Lock()
    self.counts: collections.Counter[str] = collections.Counter()
    self.broken: list[str] = []
    undisturbed = self._folder("undisturbed")
    _finished(Program(undisturbed, None))
    self._expected = _results(undisturbed)

  def _folder(self, name: str) -> pathlib.Path:
    folder = self._place / name
    folder.mkdir()
    return folder

  def _take(self) -> bool:
    with self._locked:
      self._left -= 1
      return self._left >= 0 and time.monotonic() < self._deadline

  def run(self, job: int) -> None:
    """Disturbs runs one after the other; each job draws by its number."""
    draw = random.Random(f"{self._seed} {job}")
    number = 0
    folder = self._folder(f"{job}-{number}")
    while self._take():
      kind = draw.choice(self._kinds)
      try:
        came = _DISTURBANCES[kind](folder, draw)
        is_over = "finished" in came
        if is_over and _results(folder) != self._expected:
          raise BrokenError("other results than those of an undisturbed run")
      except BrokenError as error:
        self._note(kind, f"BROKEN: {error} (see {folder})", is_broken=True)
      else:
        self._note(kind, came)
        if not is_over:
          continue
        shutil.rmtree(folder)
      number += 1
      folder = self._folder(f"{job}-{number}")

  def _note(self, kind: str, came: str, *, is_broken: bool = False) -> None:
    with self._locked:
      if is_broken:
        self.broken.append(f"{kind}: {came}")
        print(self.broken[-1], flush=True)
      self.counts[f"{kind}: {'BROKEN' if is_broken else came}"] += 1


def main(argv: Sequence[str] | None = None) -> int:
  """Disturbs runs for a while; prints how often what came of it."""
  arguments = _arguments(argv)
  place = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
  soak = Soak(
    place,
    kinds=arguments.kinds,
    seed=arguments.seed,
    seconds=arguments.seconds,
    most=arguments.cases,
  )
  with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as jobs:
    for done in [jobs.submit(soak.run, job) for job in range(arguments.jobs)]:
      done.result()
  for came, count in sorted(soak.counts.items()):
    print(f"{count:5}  {came}")
  print(
    f"{soak.counts.total()} disturbances, {len(soak.broken)} broke something"
  )
  if soak.broken:
    return 1
  shutil.rmtree(place)
  return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument(
    "--seconds", type=float, default=600, help="about how long it takes"
  )
  parser.add_argument(
    "--cases", type=int, default=10**6, help="the most disturbances"
  )
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
  parser.add_argument(
    "--kinds",
    type=lambda names: names.split(","),
    default=list(KINDS),
    help="what to do to runs; by default " + ",".join(KINDS),
  )
  arguments = parser.parse_args(argv)
  if unknown := sorted(set(arguments.kinds) - set(KINDS)):
    parser.error(
      f"--kinds: found {', '.join(unknown)}, expected some of "
      f"{', '.join(KINDS)}"
    )
  return arguments


if __name__ == "__main__":
  sys.exit(main())
