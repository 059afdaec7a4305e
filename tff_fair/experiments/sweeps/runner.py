"""Runs the runs of a sweep: finished ones stay, others go on or begin."""

import contextlib
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tqdm

from tff_fair import files
from tff_fair.experiments import interruption, spec_text
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import fairness_table, finding
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps import plan, processes, states
from tff_fair.experiments.sweeps.plan import PlannedRun


class Failure(NamedTuple):
  """A run that failed.

  Attributes:
    run: The run.
    reason: The last line that it wrote.
    log: The file with all it wrote.
  """

  run: PlannedRun
  reason: str
  log: pathlib.Path


def train(spec: RunSpec, path: pathlib.Path, workers: Sequence[str]) -> None:
  """Trains a run, in the process that is there for it."""
  # Imports TensorFlow.
  from tff_fair.experiments.training import running  # noqa: PLC0415

  run = running.run(spec, path, workers=workers)
  print(fairness_table.describe(run.summary or {}))


def sweep(
  specs: Iterable[RunSpec],
  output_dir: str | os.PathLike[str],
  jobs: int = 1,
  progress: bool = True,
) -> list[Run]:
  """Trains runs, each in a folder of its own.

      runs = sweep(spec.vary(seed=range(5)), "outputs/first", jobs=2)

  A run's folder is named after its method and the settings in which the runs
  differ. Called again, the sweep keeps finished runs, and goes on with
  interrupted ones.

  Args:
    specs: The runs, such as those of `RunSpec.vary`. Identical runs are run
      once.
    output_dir: Folder of the runs' folders; it may exist.
    jobs: How many runs go on side by side, each in a process of its own.
    progress: Whether to show on stderr how the sweep gets on.

  Returns:
    The finished runs in the order of `specs`.

  Raises:
    ValueError: If `jobs` is not positive.
    RunError: If a folder holds another run, or if a run fails; then the other
      runs have come to their end.
    Interrupted: If Ctrl-C or SIGTERM came; the runs have then saved their
      rounds, and the same call goes on from there.
  """
  if jobs < 1:
    raise ValueError(f"jobs must be a positive integer, found {jobs!r}.")
  planned = plan.of_specs(list(specs))
  folder = pathlib.Path(output_dir)
  once = list({run.name: run for run in planned}.values())
  runner = Runner(folder, jobs=jobs, progress=progress)
  with interruption.raised(interruption.unhandled_signals()):
    failures = runner.carry_out(once, runner.states(once))
  if failures:
    told = "; ".join(
      f"{f.run.name}: {f.reason} (log: {f.log})" for f in failures
    )
    raise RunError(
      f"{folder}: {len(failures)} of {len(once)} runs failed; the same call "
      f"tries them again. {told}"
    )
  return [finding.open_run(folder / run.name) for run in planned]


@dataclasses.dataclass(frozen=True)
class Runner:
  """Carries out planned runs.

  Attributes:
    folder: Folder of the runs' folders.
    jobs: How many runs go on side by side.
    progress: Whether to show on stderr how they get on.
    describe: Returns the line that tells of a mistake of the user; a function
      of a module that the processes of the runs can import.
  """

  folder: pathlib.Path
  _: dataclasses.KW_ONLY
  jobs: int = 1
  progress: bool = True
  describe: Callable[[Exception], str] = str

  def states(self, planned: Sequence[PlannedRun]) -> list[str]:
    """Returns of each run "finished", "interrupted" or "new".

    Raises:
      RunError: If a folder holds another run, or nobody can read it.
    """
    return [states.of(run.spec, self.folder / run.name) for run in planned]

  def carry_out(
    self,
    planned: Sequence[PlannedRun],
    found: Sequence[str],
    title: str | None = None,
  ) -> list[Failure]:
    """Carries out the runs that are not finished.

    Args:
      planned: Runs with names of their own.
      found: Their states.
      title: The subject of the runs.

    Returns:
      The runs that failed.

    Raises:
      Interrupted: If a signal came; the runs have then saved their rounds.
      RunError: If nobody can write to the folder.
    """
    unfinished = []
    for run, state in zip(planned, found, strict=True):
      if state == "finished":
        _keep_log(self.folder / run.name)
      else:
        unfinished.append(run)
    if unfinished:
      processes.prepare()
    _write_names(self.folder, title, planned)
    return self._run_all(unfinished, len(planned))

  def _run_all(
    self, unfinished: Sequence[PlannedRun], total: int
  ) -> list[Failure]:
    done = total - len(unfinished)
    failures: list[Failure] = []
    self._say(
      f"{self.folder}: {total} runs, {done} of them finished. A run writes its "
      "output to its .log there, until it is finished."
    )
    of_names = {run.name: run for run in unfinished}
    with tqdm.tqdm(
      total=total,
      initial=done,
      unit="run",
      dynamic_ncols=True,
      file=sys.stderr,
      disable=None if self.progress else True,  # None: without a terminal.
    ) as bar:
      try:
        with contextlib.closing(
          processes.run_all(map(self._job, unfinished), self.jobs)
        ) as all_ended:
          for ended in all_ended:
            run = of_names[ended.job.name]
            text = self._end(run, ended, failures)
            done += 1
            bar.update()
            self._say(f"{done}/{total} {text}", bar)
      except interruption.Interrupted as interrupted:
        # Asked of the folders: the signal may come before a run is counted.
        num_finished = total - sum(
          not RunFolder(self.folder / name).is_finished for name in of_names
        )
        interrupted.advice = (
          f"{num_finished} of {total} runs are finished in {self.folder}, what "
          "the others had is saved; the same command goes on from there."
        )
        raise
    return failures

  def _job(self, run: PlannedRun) -> processes.Job:
    path = self.folder / run.name
    return processes.Job(
      name=run.name,
      spec=run.spec,
      path=path,
      log=_log(path),
      train=train,
      workers=run.workers,
      describe=self.describe,
    )

  def _end(
    self, run: PlannedRun, ended: processes.Ended, failures: list[Failure]
  ) -> str:
    """Keeps a run's output, or adds the failure; returns the text for users."""
    path, log = ended.job.path, ended.job.log
    time = f"{ended.seconds:.0f} s"
    if ended.status == 0:
      _keep_log(path)
      last = finding.open_run(path).evaluations.iloc[-1]
      return (
        f"{run.name}: accuracy {last['accuracy/mean']:.1%}, std "
        f"{last['accuracy/std']:.1%}, worst 10% "
        f"{last['accuracy/worst_10']:.1%} ({time})"
      )
    failures.append(Failure(run, _last_line(log), log))
    how = (
      f"killed by signal {-ended.status}"
      if ended.status < 0
      else f"status {ended.status}"
    )
    alone = spec_text.command(run.spec, str(path), run.workers)
    return (
      f"{run.name}: FAILED ({how}, {time}): {failures[-1].reason}\n"
      f"  log: {log}\n  alone: {alone}"
    )

  def _say(self, text: str, bar: tqdm.tqdm | None = None) -> None:
    if not self.progress:
      return
    if bar is None:
      print(text, file=sys.stderr)
    else:
      bar.write(text, file=sys.stderr)
    sys.stderr.flush()


def _log(path: pathlib.Path) -> pathlib.Path:
  """Returns the file for the output of a run that is not finished."""
  return path.with_name(f"{path.name}.log")


def _keep_log(path: pathlib.Path) -> None:
  """Puts the output of a finished run into its folder."""
  with contextlib.suppress(FileNotFoundError):
    os.replace(_log(path), path / "log.txt")


def _last_line(log: pathlib.Path) -> str:
  lines = log.read_text(errors="replace").split("\n") if log.exists() else []
  said = (line.strip() for line in reversed(lines) if line.strip())
  return next(said, "no output")


def _write_names(
  folder: pathlib.Path, title: str | None, planned: Sequence[PlannedRun]
) -> None:
  """Notes the names of methods, for tables and pages."""
  path = folder / finding.NAMES_FILE
  names = {run.name: run.method for run in planned}
  for name, method in finding.read_names(folder).items():
    names.setdefault(name, method)
  content = json.dumps({"title": title, "names": names}, indent=2)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    files.write(path, f"{content}\n")
  except OSError as error:
    raise RunError(
      f"{folder}: cannot be written to: {error.strerror}; choose another "
      "folder."
    ) from error
