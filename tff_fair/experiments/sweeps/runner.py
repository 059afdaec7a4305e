"""Runs the runs of a sweep: finished ones stay, others go on or begin."""

import collections
import contextlib
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import tqdm

from tasks.formats import files, parsing
from tff_fair.experiments import amounts, garbage, importing, interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import fairness_table, finding
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps import dispatch, run_logs, states
from tff_fair.experiments.sweeps.dispatch import Executor, StartedRun
from tff_fair.experiments.sweeps.jobs import Ended, Job
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.processes import Processes
from tff_fair.experiments.sweeps.restarts import Restarts, as_seen


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

  @classmethod
  def of(cls, run: PlannedRun, log: pathlib.Path) -> Self:
    """Returns the failure that the log of a run tells of."""
    return cls(run, run_logs.last_line(log), log)

  def __str__(self) -> str:
    """Returns a few words for the user."""
    return f"{self.run.name}: {self.reason} (log: {self.log})"


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
  # Imports TensorFlow, unless this process is a fork that has it.
  with importing.quick():
    from tff_fair.experiments.training import running  # noqa: PLC0415
  garbage.spare_what_stays()

  run = running.run(spec, path, workers=workers, **options)
  print(fairness_table.describe(run.summary) if run.summary else "Pruned.")


@dataclasses.dataclass(frozen=True)
class Runner:
  """Carries out planned runs.

  Attributes:
    folder: Folder of the runs' folders.
    executor: Where runs are carried out.
    progress: Whether to show on stderr how they get on.
    describe: Returns the line that tells of a mistake of the user; a function
      of a module that the processes of the runs can import.
    options: What `experiments.run` takes besides, the same for all runs: such
      as `round_timeout`. It decides no results.
  """

  folder: pathlib.Path
  _: dataclasses.KW_ONLY
  executor: Executor = dataclasses.field(default_factory=Processes)
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
        run_logs.keep(self.folder / run.name)
      else:
        unfinished.append(run)
    write_names(self.folder, title, planned)
    done = len(planned) - len(unfinished)
    self.say(
      f"{self.folder}: {len(planned)} runs, {done} of them finished. A run "
      "writes its output to its .log there, until it is finished."
    )
    if not unfinished:
      return []
    jobs = iter([self.job(run) for run in unfinished])
    failures = []
    try:
      with (
        self.executor.opened(),
        interruption.recorded(),
        contextlib.closing(
          self.run_jobs(lambda: next(jobs, None), len(planned), done)
        ) as all_ended,
      ):
        of_names = {run.name: run for run in unfinished}
        for ended in all_ended:
          if ended.status:
            run = of_names[ended.job.name]
            failures.append(Failure.of(run, ended.job.log))
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
    next_job: Callable[[], Job | None],
    total: int,
    done: int = 0,
  ) -> Generator[Ended, None, None]:
    """Runs jobs, and shows how they get on.

    Runs that were cut off, such as those of a node that died, go on.

    Args:
      next_job: As `dispatch.run_all` takes it.
      total: The number of runs, those that are done included.
      done: The number of runs that are done.

    Yields:
      The runs as they end; the logs of those that did not fail are kept.

    Raises:
      Interrupted: If a signal came; the runs have then saved their rounds.
    """
    again: collections.deque[Job] = collections.deque()
    restarts = Restarts(self.executor.restarts)
    with (
      tqdm.tqdm(
        total=total,
        initial=done,
        unit="run",
        dynamic_ncols=True,
        file=sys.stderr,
        disable=None if self.progress else True,  # None: without a terminal.
      ) as bar,
      contextlib.closing(
        dispatch.run_all(
          lambda: again.popleft() if again else next_job(),
          self.executor,
          lambda job: self._start(job, bar),
        )
      ) as all_ended,
    ):
      for one in all_ended:
        ended = as_seen(one) if self.executor.is_shared else one
        if (why := restarts.reason(ended)) is not None:
          if why:
            self.say(f"{ended.job.name}: {why}", bar)
          again.append(ended.job)
          continue
        text = run_logs.tell(ended)
        done += 1
        bar.update()
        self.say(f"{done}/{total} {text}", bar)
        yield ended

  def _start(self, job: Job, bar: tqdm.tqdm) -> StartedRun:
    """Starts a run, or waits for it where another program has it in hand."""
    if self.executor.is_shared and RunFolder(job.path).is_at_work:
      self.say(
        f"{job.name}: another program is at work in it; the sweep waits for "
        "its end.",
        bar,
      )
      return dispatch.Elsewhere(job)
    return self.executor.start(job)

  def job(self, run: PlannedRun, **options: Any) -> Job:
    """Returns the training of a run, with further options as `train` takes."""
    path = self.folder / run.name
    return Job(
      name=run.name,
      spec=run.spec,
      path=path,
      log=run_logs.path(path),
      train=functools.partial(train, **self.options, **options),
      workers=run.workers,
      describe=self.describe,
      options=self.options,
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
  content = parsing.json_text({"title": title, "names": names})
  try:
    folder.mkdir(parents=True, exist_ok=True)
    files.write(path, content)
  except OSError as error:
    raise RunError(
      f"{folder}: cannot be written to: {error.strerror}; choose another "
      "folder."
    ) from error
