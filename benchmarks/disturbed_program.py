"""A training run in a process of its own, which `benchmarks.soak` disturbs."""

import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_TO_END = 10.0
_MARK = "TFF_FAIR_SOAK"
_COMMAND = (
  *(sys.executable, "-m", "binaries.train", "--algorithm=fedavg"),
  *("--task_option=num_clients=6", "--task_option=model=logistic_regression"),
  *("--total_rounds=100", "--rounds_per_evaluation=20", "--output_dir=run"),
  "--round_timeout=40",
)


class BrokenError(Exception):
  """Something is not as it must be."""


class Ended(NamedTuple):
  """A program that has ended.

  Attributes:
    status: Its exit status.
    said: All it said.
    seconds: How long it and its processes took to end.
  """

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

    environment = {**os.environ, _MARK: self._mark, "PYTHONPATH": str(ROOT)}
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

  def pids(self, *, workers: bool = False) -> list[int]:
    """Returns its processes, or its workers alone."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
      with contextlib.suppress(OSError):  # It has ended meanwhile.
        environment = (process / "environ").read_bytes().split(b"\0")
        command = (process / "cmdline").read_bytes()
        is_worker = b"worker_binary" in command.split(b"\0")[0]
        if f"{_MARK}={self._mark}".encode() in environment and (
          is_worker or not workers
        ):
          found.append(int(process.name))
    return found

  def end(self, seconds: float) -> Ended:
    """Waits for its end.

    Raises:
      BrokenError: If it does not end in time, or leaves a process.
    """
    start = time.monotonic()
    try:
      if not self.wait(seconds):
        raise BrokenError(f"has not ended after {seconds:.0f} s")
      while self.pids():
        if time.monotonic() > start + max(seconds, SECONDS_TO_END):
          raise BrokenError("left a process")
        time.sleep(0.1)
      seconds_taken = time.monotonic() - start
    finally:
      for pid in self.pids():
        with contextlib.suppress(ProcessLookupError):
          os.kill(pid, signal.SIGKILL)
    self._reader.join(timeout=SECONDS_TO_END)
    return Ended(self._process.returncode, "".join(self._lines), seconds_taken)
