"""Runs the runs of a sweep: finished ones stay, others go on or begin."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import sys
from collections.abc import (
  Callable,
  Generator,
  Iterable,
  Mapping,
  Sequence,
)
from typing import Any, NamedTuple

import tqdm

from tff_fair import files
from tff_fair.experiments import amounts, interruption, spec_text
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


def train(
  spec: RunSpec, path: pathlib.Path, workers: Sequence[str], **options: Any
) -> None:
  """Trains a run, in the process that is there for it.

  Args:
    spec: The run.
    path: Its folder.
    workers: The hosts that compute it; none means this one.
    **options: As `running.run` takes them.
  """
  # Imports TensorFlow.
  from tff_fair.experiments.training import running  # noqa: PLC0415

  run = running.run(spec, path, workers=workers, **options)
  print(fairness_table.describe(run.summary) if run.summary else "Pruned.")


def sweep(
  specs: Iterable[RunSpec],
  output_dir: str | os.PathLike[str],
  jobs: int = 1,
  progress: bool = True,
  round_timeout: float | None = None,
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
    round_timeout: Seconds that a round of a run may take, as
      `experiments.run` takes it.

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
  runner = Runner(
    folder,
    jobs=jobs,
    progress=progress,
    options={"round_timeout": round_timeout},
  )
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
    options: What `experiments.run` takes besides, the same for all runs: such
      as `round_timeout`. It decides no results.
  """

  folder: pathlib.Path
  _: dataclasses.KW_ONLY
  jobs: int = 1
  progress: bool = True
  describe: Callable[[Exception], str] = str
  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def states(self, planned: Sequence[PlannedRun]) -> list[str]:
    """Returns of each run "finished", "pruned", "interrupted" or "new".

    Raises:
      RunError: If a folder holds another run, or nobody can read it.
    """
    shown: Iterable[PlannedRun] = planned
    if self.progress:
      shown = amounts.count(planned, len(planned), "reading runs")
    return [states.of(run.spec, self.folder / run.name) for run in shown]

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
        keep_log(self.folder / run.name)
      else:
        unfinished.append(run)
    if unfinished:
      processes.prepare()
    write_names(self.folder, title, planned)
    done = len(planned) - len(unfinished)
    self.say(
      f"{self.folder}: {len(planned)} runs, {done} of them finished. A run "
      "writes its output to its .log there, until it is finished."
    )
    jobs = iter([self.job(run) for run in unfinished])
    failures = []
    try:
      with (
        interruption.recorded(),
        contextlib.closing(
          self.run_jobs(lambda: next(jobs, None), len(planned), done)
        ) as all_ended,
      ):
        of_names = {run.name: run for run in unfinished}
        for ended in all_ended:
          if ended.status:
            log = ended.job.log
            run = of_names[ended.job.name]
            failures.append(Failure(run, last_line(log), log))
    except interruption.Interrupted as interrupted:
      # Asked of the folders: the signal may come before a run is counted.
      num_finished = len(planned) - sum(
        not RunFolder(self.folder / run.name).is_finished for run in unfinished
      )
      interrupted.advice = (
        f"{num_finished} of {len(planned)} runs are finished in {self.folder}, "
        "what the others had is saved; the same command goes on from there."
      )
      raise
    return failures

  def run_jobs(
    self,
    next_job: Callable[[], processes.Job | None],
    total: int,
    done: int = 0,
  ) -> Generator[processes.Ended, None, None]:
    """Runs jobs, and shows how they get on.

    Args:
      next_job: As `processes.run_all` takes it.
      total: The number of runs, those that are done included.
      done: The number of runs that are done.

    Yields:
      The runs as they end; the logs of those that did not fail are kept.

    Raises:
      Interrupted: If a signal came; the runs have then saved their rounds.
    """
    with (
      tqdm.tqdm(
        total=total,
        initial=done,
        unit="run",
        dynamic_ncols=True,
        file=sys.stderr,
        disable=None if self.progress else True,  # None: without a terminal.
      ) as bar,
      contextlib.closing(processes.run_all(next_job, self.jobs)) as all_ended,
    ):
      for ended in all_ended:
        text = _tell(ended)
        done += 1
        bar.update()
        self.say(f"{done}/{total} {text}", bar)
        yield ended

  def job(self, run: PlannedRun, **options: Any) -> processes.Job:
    """Returns the training of a run, with further options as `train` takes."""
    path = self.folder / run.name
    return processes.Job(
      name=run.name,
      spec=run.spec,
      path=path,
      log=_log(path),
      train=functools.partial(train, **self.options, **options),
      workers=run.workers,
      describe=self.describe,
    )

  def say(self, text: str, bar: tqdm.tqdm | None = None) -> None:
    """Writes a line on stderr, if it is to show how runs get on."""
    if not self.progress:
      return
    if bar is None:
      print(text, file=sys.stderr)
    else:
      bar.write(text, file=sys.stderr)
    sys.stderr.flush()


def _tell(ended: processes.Ended) -> str:
  """Keeps a run's output, unless it failed; returns the text for users."""
  job, time = ended.job, f"{ended.seconds:.0f} s"
  if ended.status == 0:
    keep_log(job.path)
    run = finding.open_run(job.path)
    last, name = run.evaluations.iloc[-1], run.score.name
    found = {n: last[f"{name}/{n}"] for n in ("mean", "std", "worst_10")}
    pruned = f"pruned after round {int(last['round'])}, "
    return (
      f"{job.name}: {pruned if run.is_pruned else ''}"
      f"{run.score.describe(found)} ({time})"
    )
  how = (
    f"killed by signal {-ended.status}"
    if ended.status < 0
    else f"status {ended.status}"
  )
  alone = spec_text.command(job.spec, str(job.path), job.workers)
  return (
    f"{job.name}: FAILED ({how}, {time}): {last_line(job.log)}\n"
    f"  log: {job.log}\n  alone: {alone}"
  )


def _log(path: pathlib.Path) -> pathlib.Path:
  """Returns the file for the output of a run that is not finished."""
  return path.with_name(f"{path.name}.log")


def keep_log(path: pathlib.Path) -> None:
  """Puts the output of a run that has ended into its folder."""
  with contextlib.suppress(FileNotFoundError):
    os.replace(_log(path), path / "log.txt")


def last_line(log: pathlib.Path) -> str:
  """Returns the last line of a run's output."""
  lines = log.read_text(errors="replace").split("\n") if log.exists() else []
  said = (line.strip() for line in reversed(lines) if line.strip())
  return next(said, "no output")


def write_names(
  folder: pathlib.Path, title: str | None, planned: Sequence[PlannedRun]
) -> None:
  """Notes the names of methods, for tables and pages.

  Raises:
    RunError: If nobody can write to the folder.
  """
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
