"""Runs methods over a grid of settings and seeds, and picks the best settings.

Each run is a run of tff-fair-train in a folder of its own. Started again, it
goes on with what is not finished.
"""

import contextlib
import json
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

import tqdm

from binaries import command_line
from binaries.flags import sweep_flags
from tff_fair import files
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.runs import run as runs
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps import choice as sweep_choice
from tff_fair.experiments.sweeps import file as sweep_file
from tff_fair.experiments.sweeps import plan as sweep_plan
from tff_fair.experiments.sweeps import processes as sweep_processes

GROUPS = (sweep_flags,)


def main() -> None:
  """Runs the sweep that the flags describe."""
  sweep = sweep_file.read()
  folder = sweep_flags.output_dir()
  criterion = sweep_flags.criterion()
  fraction = sweep_flags.validation_fraction()
  progress.say_on_screen("Loading TensorFlow Federated ...")
  sweep_processes.prepare()
  planned = sweep_processes.call(sweep_plan.expand, sweep)
  states = [sweep_plan.state(run, folder / run.name) for run in planned]
  if sweep_flags.dry_run():
    for run, state in zip(planned, states, strict=True):
      print(f"{state:11}  {folder / run.name}")
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    print(
      f"{len(planned)} runs: "
      + ", ".join(f"{count} {state}" for state, count in counts.items())
    )
    return
  _write_names(folder, sweep.title, planned)
  unfinished = []
  for run, state in zip(planned, states, strict=True):
    if state == "finished":
      _keep_log(folder / run.name)
    else:
      unfinished.append(run)
  failed = _run_all(folder, unfinished, len(planned))
  finished = [
    runs.read(folder / run.name)
    for run in planned
    if RunFolder(folder / run.name).is_finished
  ]
  print(sweep_choice.table(finished, criterion, fraction), flush=True)
  if failed:
    progress.say(
      f"{failed} of {len(planned)} runs failed, see above; the same command "
      "tries them again."
    )
    sys.exit(1)


def _run_all(
  folder: pathlib.Path, planned: Sequence[sweep_plan.PlannedRun], total: int
) -> int:
  """Runs what is not finished; returns how many runs failed."""
  done, failed = total - len(planned), 0
  progress.say(
    f"{folder}: {total} runs, {done} of them finished. What a run says is in "
    "its .log there, until it is finished."
  )
  jobs = [_job(folder, run) for run in planned]
  with tqdm.tqdm(
    total=total,
    initial=done,
    unit="run",
    dynamic_ncols=True,
    file=sys.stderr,
    disable=None,  # Where there is no terminal.
  ) as bar:
    try:
      with contextlib.closing(
        sweep_processes.run_all(jobs, sweep_flags.jobs())
      ) as all_ended:
        for ended in all_ended:
          done += 1
          failed += ended.status != 0
          bar.update()
          text = _result(folder / ended.job.name, ended)
          bar.write(f"{done}/{total} {text}", file=sys.stderr)
          sys.stderr.flush()
    except interruption.Interrupted as interrupted:
      interrupted.advice = (
        f"{done - failed} of {total} runs are finished in {folder}, what the "
        "others had is saved; the same command goes on from there."
      )
      raise
  return failed


def _job(
  folder: pathlib.Path, run: sweep_plan.PlannedRun
) -> sweep_processes.Job:
  path = folder / run.name
  return sweep_processes.Job(
    name=run.name,
    arguments=[*run.arguments, f"--output_dir={path}"],
    log=_log(path),
  )


def _log(path: pathlib.Path) -> pathlib.Path:
  """Returns what takes the output of a run as long as it is not finished."""
  return path.with_name(f"{path.name}.log")


def _keep_log(path: pathlib.Path) -> None:
  """Puts the output of a finished run into its folder."""
  with contextlib.suppress(FileNotFoundError):
    os.replace(_log(path), path / "log.txt")


def _result(path: pathlib.Path, ended: sweep_processes.Ended) -> str:
  """Returns what is said of a run that ended; keeps its output."""
  time = f"{ended.seconds:.0f} s"
  log = ended.job.log
  if ended.status == 0:
    _keep_log(path)
    last = runs.read(path).evaluations.iloc[-1]
    return (
      f"{path.name}: accuracy {last['accuracy/mean']:.1%}, std "
      f"{last['accuracy/std']:.1%}, worst 10% {last['accuracy/worst_10']:.1%} "
      f"({time})"
    )
  lines = log.read_text(errors="replace").split("\n") if log.exists() else []
  said = next((line for line in reversed(lines) if line.strip()), "no output")
  how = (
    f"killed by signal {-ended.status}"
    if ended.status < 0
    else f"status {ended.status}"
  )
  command = shlex.join(["tff-fair-train", *ended.job.arguments])
  return (
    f"{path.name}: FAILED ({how}, {time}): {said.strip()}\n"
    f"  log: {log}\n  alone: {command}"
  )


def _write_names(
  folder: pathlib.Path,
  title: str | None,
  planned: Sequence[sweep_plan.PlannedRun],
) -> None:
  """Notes what the methods are called, for tables and pages."""
  path = folder / runs.NAMES_FILE
  names = {run.name: run.method for run in planned}
  for name, method in runs.read_names(folder).items():
    names.setdefault(name, method)
  content = json.dumps({"title": title, "names": names}, indent=2)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    files.write(path, f"{content}\n")
  except OSError as error:
    raise command_line.UsageError(
      f"--output_dir={folder}: cannot be written to: {error.strerror}; choose "
      "another folder."
    ) from error


def run() -> NoReturn:
  """Starts the program: the console script `tff-fair-sweep`."""
  command_line.run(
    main,
    description=str(__doc__),
    groups=GROUPS,
    namespace=sweep_flags.NAMESPACE,
  )


if __name__ == "__main__":
  run()
