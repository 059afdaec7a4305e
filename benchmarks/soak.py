"""Disturbs training runs again and again, and checks whether anything breaks.

Each job starts a run, disturbs it at a random moment, and starts it again with
the same command in the same folder. A run that finishes must have the results
of an undisturbed run; then the job begins a new run. The disturbances are

  signal  Ctrl-C or SIGTERM: the run must end with the status that shells use
          for the signal, and without a traceback.
  kill    SIGKILL.
  full    A limit on the size of files, which acts like a full disk: the run
          must end with a one-line error.

However a run ends, all its processes must be gone ten seconds later.

  python -m benchmarks.soak [--seconds=600] [--seed=0] [--jobs=2] [--kinds=...]

The exit status is 1 if a run violates a requirement; its folder is kept.
"""

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
from collections.abc import Callable

import psutil

from binaries import command_line
from binaries.command_line import UsageError

_FLAGS = command_line.Flags()
_SECONDS = _FLAGS.number("seconds", 600.0, "About how long it takes.")
_CASES = _FLAGS.integer("cases", 10**6, "The most disturbances.")
_SEED = _FLAGS.integer("seed", 0, "Of the disturbances.")
_JOBS = _FLAGS.integer("jobs", 2, "Runs side by side.", lower_bound=1)
_KINDS = _FLAGS.names(
  "kinds", ["signal", "kill", "full"], "What to do to runs."
)

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_MARK = "TFF_FAIR_SOAK"
_COMMAND = (
  *(sys.executable, "-m", "binaries.train", "--algorithm=fedavg"),
  *("--task_option=num_clients=6", "--task_option=model=logistic_regression"),
  *("--total_rounds=100", "--rounds_per_evaluation=20", "--output_dir=run"),
)
_SECONDS_TO_END = 10.0
_LONGEST = 300.0  # Seconds in which a program must end if it gets no signal.
_SECONDS_OF_START = 8.0  # About the time until training begins.
_SECONDS_OF_TRAINING = 15.0
_LIMITS_OF_FILES = (2_000, 400_000)  # The range of size limits, in bytes.
_STATUSES = {
  signal.SIGINT: (130, -signal.SIGINT),
  signal.SIGTERM: (143, -signal.SIGTERM),
}
_TABLES = ("metrics.csv", "cohorts.csv", "client_evaluations.csv")


class BrokenError(Exception):
  """A run violates a requirement."""


class Program:
  """A training program, started in the folder of a job."""

  def __init__(self, folder: pathlib.Path, most_bytes: int = -1) -> None:
    self._mark = uuid.uuid4().hex
    self.said = ""

    def prepare() -> None:
      # A background job ignores SIGINT, and its child would inherit that.
      signal.signal(signal.SIGINT, signal.SIG_DFL)
      resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    environment = {**os.environ, _MARK: self._mark, "PYTHONPATH": str(_ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    # Output goes through a pipe, to which the limit on files does not apply.
    self.process = subprocess.Popen(
      _COMMAND,
      cwd=folder,
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      start_new_session=True,
      preexec_fn=prepare,  # noqa: PLW1509
    )

  def wait(self, seconds: float) -> bool:
    """Waits at most `seconds`; returns whether the program has ended."""
    try:
      output, _ = self.process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as expired:
      output = expired.output or b""
    self.said = output.decode(errors="replace")
    return self.process.poll() is not None

  def _pids(self) -> list[int]:
    return [
      process.pid
      for process in psutil.process_iter(["environ"])
      if (process.info["environ"] or {}).get(_MARK) == self._mark
    ]

  def end(self, seconds: float) -> int:
    """Waits until all of the program's processes end; returns its status."""
    deadline = time.monotonic() + max(seconds, _SECONDS_TO_END)
    try:
      if not self.wait(seconds):
        raise BrokenError(f"has not ended after {seconds:.0f} s")
      while self._pids():
        if time.monotonic() > deadline:
          raise BrokenError("left a process")
        time.sleep(0.1)
    finally:
      for pid in self._pids():
        with contextlib.suppress(ProcessLookupError):
          os.kill(pid, signal.SIGKILL)
    return self.process.returncode

  def finish(self, *statuses: int) -> int:
    """Waits until the program ends; its status must be 0 or in `statuses`."""
    status = self.end(_LONGEST)
    self.check_no_traceback()
    if status not in (0, *statuses):
      raise BrokenError(f"status {status}: {self.said[-400:]}")
    return status

  def check_no_traceback(self) -> None:
    """Raises `BrokenError` if the program has printed a traceback."""
    if "Traceback" in self.said:
      raise BrokenError(f"a traceback: {self.said[-400:]}")


_FINISHED = "the run was finished"


def _run_until_random_moment(
  folder: pathlib.Path, draw: random.Random
) -> Program | None:
  """Starts a program; returns it at a random moment, or None if it has ended.

  Half of the moments are while the program starts, half while it trains.
  """
  program, start = Program(folder), time.time()
  seconds = draw.uniform(0.0, _SECONDS_OF_START)
  if draw.random() < 0.5:
    metrics = folder / "run" / "metrics.csv"
    while not metrics.exists() or metrics.stat().st_mtime < start:
      if program.wait(0.1):
        break
    seconds = draw.uniform(0.0, _SECONDS_OF_TRAINING)
  if not program.wait(seconds):
    return program
  program.finish()
  return None


def _signal(folder: pathlib.Path, draw: random.Random) -> str:
  number = draw.choice(list(_STATUSES))
  program = _run_until_random_moment(folder, draw)
  if program is None:
    return _FINISHED
  program.process.send_signal(number)
  start = time.monotonic()
  status = program.end(_SECONDS_TO_END)
  seconds = math.ceil(time.monotonic() - start)
  # Until the program's first line runs, Python handles the signal and may print
  # a traceback.
  ours = (_ROOT / "binaries", _ROOT / "tff_fair")
  if "Traceback" in program.said and not any(
    f"{path}{os.sep}" in program.said for path in ours
  ):
    return f"{number.name}, before its first line"
  program.check_no_traceback()
  # The signal may come between a run's last line and the program's end.
  is_done = "run: done" in program.said
  if status not in _STATUSES[number] and (status or not is_done):
    raise BrokenError(f"status {status} after {number.name}")
  if is_done:
    return _FINISHED
  while_it = "trains" if " saved in run;" in program.said else "starts"
  return f"{number.name} while it {while_it}, gone within {seconds} s"


def _kill(folder: pathlib.Path, draw: random.Random) -> str:
  program = _run_until_random_moment(folder, draw)
  if program is None:
    return _FINISHED
  program.process.kill()
  program.end(_SECONDS_TO_END)
  return "killed"


def _full(folder: pathlib.Path, draw: random.Random) -> str:
  program = Program(folder, draw.randint(*_LIMITS_OF_FILES))
  return "full" if program.finish(2) else _FINISHED


_DISTURBANCES: dict[str, Callable[[pathlib.Path, random.Random], str]] = {
  "signal": _signal,
  "kill": _kill,
  "full": _full,
}


def _results(folder: pathlib.Path) -> list[bytes]:
  return [(folder / "run" / name).read_bytes() for name in _TABLES]


class Soak:
  """Disturbs runs; counts outcomes, and lists violated requirements."""

  def __init__(self, place: pathlib.Path) -> None:
    """Trains an undisturbed run, whose results all runs must have."""
    self._place = place
    self._deadline = time.monotonic() + _SECONDS.value
    self._left = _CASES.value
    self._locked = threading.Lock()
    self.counts: collections.Counter[str] = collections.Counter()
    self.broken: list[str] = []
    undisturbed = self._folder("undisturbed")
    Program(undisturbed).finish()
    self._expected = _results(undisturbed)

  def _folder(self, name: str) -> pathlib.Path:
    folder = self._place / name
    folder.mkdir()
    return folder

  def _take_case(self) -> bool:
    with self._locked:
      self._left -= 1
      return self._left >= 0 and time.monotonic() < self._deadline

  def run(self, job: int) -> None:
    """Disturbs runs one after the other; the job's number seeds its draws."""
    draw = random.Random(f"{_SEED.value} {job}")
    number = 0
    folder = self._folder(f"{job}-{number}")
    while self._take_case():
      kind = draw.choice(_KINDS.value)
      try:
        outcome = _DISTURBANCES[kind](folder, draw)
        if outcome == _FINISHED and _results(folder) != self._expected:
          raise BrokenError("other results than those of an undisturbed run")
      except BrokenError as error:
        outcome = "BROKEN"
        self.broken.append(f"{kind}: {error} (see {folder})")
        print(self.broken[-1], flush=True)
      with self._locked:
        self.counts[f"{kind}: {outcome}"] += 1
      if outcome == _FINISHED:
        shutil.rmtree(folder)
      if outcome in (_FINISHED, "BROKEN"):
        number += 1
        folder = self._folder(f"{job}-{number}")


def main() -> None:
  """Disturbs runs for the requested time, and prints the outcomes."""
  if unknown := {*_KINDS.value} - _DISTURBANCES.keys():
    raise UsageError(
      f"--kinds={min(unknown)}: expected some of {', '.join(_DISTURBANCES)}."
    )
  place = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
  soak = Soak(place)
  with concurrent.futures.ThreadPoolExecutor(_JOBS.value) as jobs:
    for done in [jobs.submit(soak.run, job) for job in range(_JOBS.value)]:
      done.result()
  for came, count in sorted(soak.counts.items()):
    print(f"{count:5}  {came}")
  total = soak.counts.total()
  print(f"{total} disturbances, {len(soak.broken)} broke something")
  if soak.broken:
    sys.exit(1)
  shutil.rmtree(place)


PROGRAM = _FLAGS.program(main, __doc__, "Disturbances: which, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
