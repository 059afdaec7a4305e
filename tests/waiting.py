"""Waits, up to a limit, for another thread or process."""

import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(
  is_true: Callable[[], object],
  seconds: float = 150.0,
  *,
  process: "subprocess.Popen[Any] | None" = None,
  log: pathlib.Path | None = None,
) -> None:
  """Waits until `is_true`; fails after `seconds`, or if `process` ends."""
  deadline = time.monotonic() + seconds
  while not is_true():
    told = "" if log is None else log.read_text()
    assert process is None or process.poll() is None, told
    assert time.monotonic() < deadline, told
    time.sleep(0.01)


def has_rounds(metrics: pathlib.Path, number: int) -> bool:
  """Returns whether the table of a run has at least `number` rounds."""
  return metrics.exists() and metrics.read_bytes().count(b"\n") > number
