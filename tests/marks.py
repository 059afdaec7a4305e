"""Finds the processes of a program by a mark in their environment."""

import psutil

VARIABLE = "TFF_FAIR_TEST_PROGRAM"


def commands(mark: str) -> dict[int, str]:
  """Returns the live processes whose `VARIABLE` is `mark`: commands by pid."""
  return {
    process.pid: " ".join(process.info["cmdline"])
    for process in psutil.process_iter(["cmdline", "environ"])
    if (process.info["environ"] or {}).get(VARIABLE) == mark
  }
