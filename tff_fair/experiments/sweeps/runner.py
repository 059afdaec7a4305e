"""Trains the runs of a sweep: skips finished ones, resumes interrupted ones."""

import collections
import contextlib
import dataclasses
import functools
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tqdm

from tff_fair import escaping
from tff_fair.experiments import interruption, progress, startup
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import claim, discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import executors, plan
from tff_fair.experiments.sweeps.jobs import Executor, Job, JobEnd, StartedRun
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.processes import Processes
from tff_fair.experiments.texts import fairness_table, run_warnings
from tff_fair.files import atomic, parsing


def state_of(spec: RunSpec, folder: pathlib.Path) -> str:
  """Returns a run's state: "finished", "pruned", "interrupted" or "new".

  Raises a `RunError` if the folder holds another run.
  """
  files = RunFolder(folder)
  if not files.config.exists() or not files.config.stat().st_size:
    files.check_free()
    return "new"
  saved = discovery.read_run(folder)
  for name, (before, now) in saved.differences(spec).items():
    raise RunError(
      f"{folder}: holds a run with {name}={before} (here {now}); choose "
      "another folder for the sweep, or move that run away."
    )
  if saved.is_finished:
    return "finished"
  return "pruned" if saved.is_pruned else "interrupted"


class Failure(NamedTuple):
  """A run that failed."""

  name: str
  reason: str
  log: pathlib.Path

  def __str__(self) -> str:
    return f"{self.name}: {self.reason} (log: {self.log})"


def train(spec: RunSpec, path: pathlib.Path, **options: Any) -> None:
  """Trains a run in this process, which an executor started for it."""
  startup.check_limits()
  # This imports TensorFlow, unless the process was forked after such imports.
  with startup.fast_import():
    from tff_fair.experiments.training import execution  # noqa: PLC0415
  startup.freeze_gc()

  run = execution.run(spec, path, **options)
  if run.summary is None:
    print("Pruned.")
    return
  print(fairness_table.describe(run.summary, run_warnings.of_run(run)))


@dataclasses.dataclass(frozen=True)
class Runner:
  """Carries out planned runs in subfolders of `folder`."""

  folder: pathlib.Path  # Contains the runs' folders.
  _: dataclasses.KW_ONLY
  executor: Executor = dataclasses.field(default_factory=Processes)
  progress: bool = True  # Whether to show progress on stderr.
  # Describes a user's mistake in one line. The function must be picklable,
  # since the processes of runs get a copy.
  describe: Callable[[Exception], str] = str
  # Arguments of `experiments.run` that do not affect results.
  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def states(self, planned: Sequence[PlannedRun]) -> list[str]:
    """Returns the state of each run, see `state_of`."""
    shown: Iterable[PlannedRun] = planned
    if self.progress:
      shown = progress.track(planned, len(planned), "reading runs")
    return [state_of(run.spec, self.folder / run.name) for run in shown]

  def run_unfinished(
    self,
    planned: Sequence[PlannedRun],
    found: Sequence[str],
    title: str | None = None,
  ) -> list[Failure]:
    """Carries out the planned runs that are not finished.

    `found` has the runs' states. Returns the runs that failed.
    """
    with self.hold_claim():
      write_names(self.folder, title, planned)
      unfinished = []
      for run, state in zip(planned, found, strict=True):
        if state == "finished":
          keep_log(self.folder / run.name)
        else:
          unfinished.append(run)
      done = len(planned) - len(unfinished)
      self.say(
        f"{self.folder}: {len(planned)} runs, {done} of them finished. A run "
        "writes its output to its .log there, until it is finished."
      )
      if not unfinished:
        return []
      jobs = map(self.job, unfinished)

      def describe_progress() -> str:
        # Count folders, as a signal may come before a run's end is handled.
        num_finished = sum(
          RunFolder(self.folder / run.name).is_finished for run in planned
        )
        return f"{num_finished} of {len(planned)} runs are finished"

      return self.run_jobs(
        lambda: next(jobs, None),
        describe_progress,
        total=len(planned),
        done=done,
      )

  def check_limits(self) -> None:
    """Checks this machine's resource limits, unless runs are on a cluster."""
    if not self.executor.is_shared:
      startup.check_limits()

  @contextlib.contextmanager
  def hold_claim(self) -> Iterator[None]:
    """Claims the folder for this sweep, unless runs are on a cluster."""
    if self.executor.is_shared:
      yield
      return
    with contextlib.ExitStack() as closing:
      try:
        self.folder.mkdir(parents=True, exist_ok=True)
        closing.enter_context(claim.hold_folder(self.folder, self.say))
      except OSError as error:
        raise _unwritable(self.folder, error) from error
      yield

  def run_jobs(
    self,
    next_job: Callable[[], Job | None],
    describe_progress: Callable[[], str],
    note_end: Callable[[JobEnd], None] = lambda _: None,
    *,
    total: int,
    done: int,
  ) -> list[Failure]:
    """Runs the jobs that `next_job` returns; resumes those that are cut off.

    Returns the runs that failed. The progress bar begins at `done` of `total`.
    """
    again: collections.deque[Job] = collections.deque()
    restarts = executors.Restarts(self.executor.restarts)
    failures = []
    try:
      with (
        self.executor.session(),
        interruption.record_signals(),
        tqdm.tqdm(
          total=total,
          initial=done,
          unit="run",
          dynamic_ncols=True,
          file=sys.stderr,
          # None disables the bar only if there is no terminal.
          disable=None if self.progress else True,
        ) as bar,
        contextlib.closing(
          executors.run_all(
            lambda: again.popleft() if again else next_job(),
            self.executor,
            self._start,
          )
        ) as all_ended,
      ):
        for one in all_ended:
          ended = executors.verify_end(one) if self.executor.is_shared else one
          name, log = ended.job.name, ended.job.log
          if (why := restarts.reason(ended)) is not None:
            if why:
              self.say(f"{name}: {why}")
            again.append(ended.job)
            continue
          text = _end_text(ended)
          done += 1
          bar.update()
          self.say(f"{done}/{total} {text}")
          note_end(ended)
          if ended.status:
            failures.append(Failure(name, _last_line(log), log))
    except interruption.Interrupted as interrupted:
      interrupted.advice = (
        f"{describe_progress()} in {self.folder}, what the others had is "
        "saved: repeat the command to resume."
      )
      raise
    return failures

  def _start(self, job: Job) -> StartedRun:
    """Starts a run, or waits for its end if another program is training it."""
    if self.executor.is_shared and RunFolder(job.path).is_in_use:
      self.say(
        f"{job.name}: another program is using it; the sweep waits for its end."
      )
      return executors.ExternalRun(job)
    return self.executor.start(job)

  def job(self, run: PlannedRun, **options: Any) -> Job:
    """Returns the job that trains a run with further `options` of `train`."""
    path = self.folder / run.name
    return Job(
      name=run.name,
      spec=run.spec,
      path=path,
      log=_log_path(path),
      train=functools.partial(train, **self.options, **options),
      describe=self.describe,
      options=self.options,
    )

  def say(self, text: str) -> None:
    """Writes text to stderr if `progress` is set."""
    if self.progress:
      # `tqdm.write` keeps a progress bar below the text.
      tqdm.tqdm.write(escaping.lines(text), file=sys.stderr)
      sys.stderr.flush()


def write_names(
  folder: pathlib.Path, title: str | None, planned: Sequence[PlannedRun]
) -> None:
  """Records a sweep's title and its runs' methods, for tables and pages."""
  path = folder / discovery.NAMES_FILE
  names = {run.name: run.method for run in planned}
  for name, method in discovery.read_names(folder).items():
    names.setdefault(name, method)
  content = parsing.json_text({"title": title, "names": names})
  try:
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(path, content)
  except OSError as error:
    raise _unwritable(folder, error) from error


def _unwritable(folder: pathlib.Path, error: OSError) -> RunError:
  return RunError(
    f"{folder}: cannot be written to: {error.strerror}; choose another folder."
  )


# The least free space for a log: a block of common file systems, in bytes.
_LEAST_ROOM = 4096


def _end_text(ended: JobEnd) -> str:
  """Returns a text on how a run ended; moves a successful run's log."""
  job, time = ended.job, f"{ended.seconds:.0f} s"
  if ended.status == 0:
    keep_log(job.path)
    run = discovery.read_run(job.path)
    last, name = run.evaluations.iloc[-1], run.score.name
    found = {n: last[f"{name}/{n}"] for n in ("mean", "std", "worst_10")}
    pruned = f"pruned after round {int(last['round'])}, "
    return (
      f"{job.name}: {pruned if run.is_pruned else ''}"
      f"{run.score.describe(found)} ({time})"
      + "".join(f"\n  {text}" for text in run_warnings.of_run(run))
    )
  command = spec_text.command(job.spec, str(job.path), job.options)
  return (
    f"{job.name}: FAILED ({ended.description}, {time}): {_last_line(job.log)}\n"
    f"  log: {job.log}\n  alone: {command}"
  )


def _log_path(folder: pathlib.Path) -> pathlib.Path:
  """Returns the path that a run's log has until the run is finished."""
  return folder.with_name(f"{folder.name}.log")


def keep_log(folder: pathlib.Path) -> None:
  """Moves a finished run's log into the run's folder."""
  with contextlib.suppress(FileNotFoundError):
    os.replace(_log_path(folder), folder / "log.txt")


def _last_line(log: pathlib.Path) -> str:
  """Returns the last line of a run's log, or why there is none."""
  lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
  if said := [line.strip() for line in lines if line.strip()]:
    return said[-1]
  with contextlib.suppress(OSError):
    if shutil.disk_usage(log.parent).free < _LEAST_ROOM:
      return f"no output; there is no space for its log in {log.parent}"
  return "no output"


def sweep(
  specs: Iterable[RunSpec],
  output_dir: str | os.PathLike[str],
  jobs: int | None = None,
  progress: bool = True,
  *,
  executor: str = executors.LOCAL,
  executor_options: Mapping[str, object] | None = None,
) -> list[Run]:
  """Trains runs, each in its own folder.

      runs = sweep(spec.vary(seed=range(5)), "outputs/first", jobs=2)

  A run's folder is named after its method and the settings in which the runs
  differ. If called again, `sweep` skips finished runs, and resumes interrupted
  ones.

  Args:
    specs: The settings of the runs, such as those that `RunSpec.vary` returns.
      Identical runs train only once.
    output_dir: The folder for the runs' folders; it may exist.
    jobs: The largest number of runs at a time, each in its own process. The
      default is one on this machine; on a cluster there is no limit.
    progress: Whether to show progress on stderr.
    executor: Where runs are carried out: "local", "submitit" (Slurm) or "dask".
      On a cluster, all hosts need the folder under the same path.
    executor_options: Options of a cluster by name: those of submitit, such as
      `slurm_partition`, or Dask's `scheduler`; and `restarts`, how often a run
      resumes automatically after its job was lost.

  Returns:
    The finished runs in the order of `specs`.

  Raises:
    ValueError: If `jobs` is not positive, or the executor or one of its options
      is not valid.
    RunError: If a folder holds another run, or if a run fails; the other runs
      have then ended.
    Interrupted: After Ctrl-C or SIGTERM; the runs have then saved their rounds,
      and the same call resumes from there.
  """
  planned = plan.from_specs(list(specs))
  folder = pathlib.Path(output_dir)
  carried_out_by = executors.create(
    executor, executor_options or {}, folder=folder, jobs=jobs
  )
  once = list({run.name: run for run in planned}.values())
  runner = Runner(folder, executor=carried_out_by, progress=progress)
  runner.check_limits()
  failures = runner.run_unfinished(once, runner.states(once))
  if failures:
    raise RunError(
      f"{folder}: {len(failures)} of {len(once)} runs failed; repeat the call "
      f"to try them again. {'; '.join(map(str, failures))}"
    )
  return [discovery.read_run(folder / run.name) for run in planned]
