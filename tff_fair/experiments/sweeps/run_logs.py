"""The output of a sweep's runs: kept in their folders, and told in a line."""

import contextlib
import os
import pathlib
import shutil

from tff_fair.experiments import spec_text
from tff_fair.experiments.runs import finding
from tff_fair.experiments.sweeps.jobs import Ended

# A block of usual file systems, in bytes.
_LEAST_ROOM = 4096


def tell(ended: Ended) -> str:
  """Keeps a run's output, unless it failed; returns the text for users."""
  job, time = ended.job, f"{ended.seconds:.0f} s"
  if ended.status == 0:
    keep(job.path)
    run = finding.open_run(job.path)
    last, name = run.evaluations.iloc[-1], run.score.name
    found = {n: last[f"{name}/{n}"] for n in ("mean", "std", "worst_10")}
    pruned = f"pruned after round {int(last['round'])}, "
    return (
      f"{job.name}: {pruned if run.is_pruned else ''}"
      f"{run.score.describe(found)} ({time})"
    )
  alone = spec_text.command(job.spec, str(job.path), job.workers, job.options)
  return (
    f"{job.name}: FAILED ({ended.how}, {time}): {last_line(job.log)}\n"
    f"  log: {job.log}\n  alone: {alone}"
  )


def path(folder: pathlib.Path) -> pathlib.Path:
  """Returns the file for the output of a run that is not finished."""
  return folder.with_name(f"{folder.name}.log")


def keep(folder: pathlib.Path) -> None:
  """Puts the output of a run that has ended into its folder."""
  with contextlib.suppress(FileNotFoundError):
    os.replace(path(folder), folder / "log.txt")


def last_line(log: pathlib.Path) -> str:
  """Returns the last line of a run's output."""
  lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
  said = (line.strip() for line in reversed(lines) if line.strip())
  return next(said, _no_output(log.parent))


def _no_output(folder: pathlib.Path) -> str:
  with contextlib.suppress(OSError):
    if shutil.disk_usage(folder).free < _LEAST_ROOM:
      return f"no output; its log found no room in {folder}"
  return "no output"
