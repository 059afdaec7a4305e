"""Runs: from settings to a folder of results."""

import contextlib
import errno
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from tasks.formats import files, parsing
from tasks.models import starting
from tff_fair import runtime, summing
from tff_fair.declared import FieldError
from tff_fair.experiments import combinations, interruption
from tff_fair.experiments import progress as progress_report
from tff_fair.experiments.correcting import stages
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.progress import Say
from tff_fair.experiments.runs import configuration, finding, tables
from tff_fair.experiments.runs.folder import RunFolder, take_folder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  assembly,
  connecting,
  event_files,
  exclusion,
  loop,
  population,
  private_rounds,
  release,
  remaining_rounds,
  results,
  scoring,
  wandb_release,
)
from tff_fair.experiments.worker_data import checking, labels
from tff_fair.runtime.compilation_cache import (
  NO_CACHE,
  CompilationCache,
  of_user,
)

_OUTPUTS = pathlib.Path("outputs")
# What the system lacks, as TensorFlow's errors say it, too, and the way out.
_WAYS_OUT = {
  **dict.fromkeys(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)), "make room"
  ),
  **dict.fromkeys(
    map(os.strerror, (errno.EMFILE, errno.ENFILE)),
    "allow more of them (ulimit -n)",
  ),
}


def run(
  spec: RunSpec,
  output_dir: str | os.PathLike[str] | None = None,
  *,
  progress: bool = True,
  workers: Sequence[str] = (),
  engine: str | None = None,
  scheduler: str | None = None,
  dask_workers: int | None = None,
  straggler_timeout: float | None = None,
  command: str | None = None,
  wandb: str | None = None,
  pruning: loop.Pruning | None = None,
  compilation_cache: bool = True,
  round_timeout: float | None = None,
  worker_data: str | os.PathLike[str] | None = None,
) -> Run:
  """Trains, evaluates and saves results; goes on with a run that is there.

  It computes where `tff_fair.runtime.use_local` or `use_workers` has said, else
  in a worker on this machine.

  Args:
    spec: The run.
    output_dir: The folder of the results. It must be new, or hold the same run,
      interrupted or with fewer `total_rounds`, which then goes on and ends as a
      run that was that long from the start. By default outputs/TASK-ALGORITHM,
      or the first of outputs/TASK-ALGORITHM-2, -3, ... that is free.
    progress: Whether to tell on stderr how the run gets on.
    workers: TFF workers to compute on, each as "host:port", from now on: as
      `tff_fair.runtime.use_workers` takes them.
    engine: Where to compute: "local", in a worker on this machine; "workers",
      in those of `workers`; "dask", in those of a Dask cluster. By default as
      `workers` and earlier calls say.
    scheduler: The Dask scheduler, as "tcp://host:port"; by default Dask starts
      workers on this machine.
    dask_workers: How many; by default one for each core.
    straggler_timeout: Seconds after which another one of `workers` computes a
      part, too, that one has not ended; by default never.
    command: The command line to note in the folder; by default one that starts
      the same run.
    wandb: A project of Weights & Biases, which gets the settings and the
      evaluations; it decides none of the results.
    pruning: Ends a run of a search early, if it promises too little.
    compilation_cache: Whether to keep the compiled computations for later runs
      of the same settings, in the user's folder of caches, and to use those
      that are there; see `tff_fair.runtime.compilation_cache`. Decides no
      results.
    round_timeout: Seconds after which a worker that has not computed a round,
      or an evaluation, is replaced; 0 is no limit. See
      `tff_fair.runtime.supervised` for what it is by default.
    worker_data: A folder of the task's examples that each worker has at this
      path, as `prepare_data --for_workers` writes it. This program then reads
      its index alone, and only places travel. Decides no results.

  Returns:
    The finished run, or the pruned one.

  Raises:
    FieldError: If a setting does not go with the data or the method, or there
      are no such workers.
    RunError: If the folder holds something else, or cannot be written to; or if
      workers are lost again and again.
    tasks.DataError: If the data cannot be used.
    Interrupted: If Ctrl-C or SIGTERM came. The run has then saved its last
      round; the same call goes on from there.
  """
  wandb_release.check_installed(wandb)
  paths = _paths(spec, output_dir)
  say = progress_report.say if progress else _say_nothing
  computing = connecting.Computing(
    engine=engine,
    workers=workers,
    scheduler=scheduler,
    dask_workers=dask_workers,
    straggler_timeout=straggler_timeout,
  )
  computing.prepare(say)
  plan = assembly.build(
    spec, _cache(spec, compilation_cache), worker_data=worker_data
  )
  computing.connect(plan.aggregation)
  if plan.worker_data is None:
    population.check_data(plan.task)
  else:
    checking.check(plan.worker_data, workers)
  stages.check(spec, plan)
  config = configuration.build(
    spec,
    clients_per_round=plan.clients_per_round,
    aggregation=plan.aggregation,
    description=plan.task.description,
    score=scoring.score_of(plan.task),
    output_dir=None if output_dir is None else str(output_dir),
    workers=workers,
    command=command,
    initial_weights=starting.digest(plan.task.keras_model_fn),
  )
  with (
    interruption.recorded(),
    runtime.supervised(
      check=interruption.check, timeout=round_timeout, say=say
    ),
    take_folder(paths, config, say, lengthens=output_dir is not None) as folder,
    runtime.in_parts_of(spec.clients_per_part),
  ):
    for line in _introduction(spec, plan):
      say(line)
    with (
      wandb_release.logging_to(wandb, folder, spec, say) as also,
      _advising(folder, spec),
      _blaming_labels(plan, workers),
    ):
      remaining_rounds.train(folder, spec, plan, say, progress, also, pruning)
      _write_results(folder, spec, plan, say, pruning)
    say(
      f"{folder.path}: pruned; the run promised too little."
      if folder.is_pruned
      else f"{folder.path}: done; it holds all tables and plots.\n"
    )
  found = finding.open_run(folder.path)
  if idle := found.num_idle_rounds:
    cohorts = tables.read_whole(folder.path, tables.COHORTS)
    advice = exclusion.advise(cohorts, idle, len(found.rounds))
    say(f"{found.path}: {advice}")
  return found


def _paths(
  spec: RunSpec, output_dir: str | os.PathLike[str] | None
) -> Iterable[pathlib.Path]:
  """Returns the folders that may take a run, the preferred first."""
  if output_dir is not None:
    path = pathlib.Path(output_dir).expanduser()
    RunFolder(path).check_usable(spec.total_rounds)
    return [path]
  first = _OUTPUTS / spec.short_name
  others = (first.with_name(f"{first.name}-{n}") for n in itertools.count(2))
  return itertools.chain([first], others)


def _cache(spec: RunSpec, is_wanted: bool) -> CompilationCache:
  # Secure sums in the clear take computations in another form.
  if not is_wanted or spec.aggregation == summing.SECURE:
    return NO_CACHE
  return of_user()


def _introduction(spec: RunSpec, plan: assembly.Plan) -> Iterator[str]:
  """Yields what a user is to know of a run before it begins."""
  yield assembly.describe(spec, plan)
  if plan.aggregation == summing.SECURE:
    yield private_rounds.SIMULATED
  yield from combinations.without_effect(spec)


def _write_results(
  folder: RunFolder,
  spec: RunSpec,
  plan: assembly.Plan,
  say: Say,
  pruning: loop.Pruning | None,
) -> None:
  """Writes what comes of a run that has trained; of a pruned one, its end."""
  if pruning is not None and pruning.is_pruned:
    last = release.last_saved_round(folder)
    files.write(folder.pruned, parsing.json_text({"rounds": last}))
    return
  event_files.write_hparams(folder, spec, scoring.score_of(plan.task))
  interruption.check()
  summary = results.write(
    folder,
    plan.task,
    spec=spec,
    selection=plan.selection,
    attackers=plan.attackers,
    dp=plan.dp,
  )
  if private_rounds.PRIVACY in summary:
    say(private_rounds.describe(summary[private_rounds.PRIVACY]))


@contextlib.contextmanager
def _advising(folder: RunFolder, spec: RunSpec) -> Iterator[None]:
  """Adds to an error that ends a run how the user goes on with the run."""
  try:
    yield
  except interruption.Interrupted as interrupted:
    interrupted.advice = _advice(folder, spec)
    raise
  except runtime.WorkerLostError as error:
    raise RunError(
      f"{folder.path}: {error}. {_advice(folder, spec)}"
    ) from error
  except Exception as error:
    # TensorFlow has errors of its own for it, of several kinds.
    lacking = [text for text in _WAYS_OUT if text in str(error)]
    if not lacking:
      raise
    raise RunError(
      f"{folder.path}: {lacking[0]}; {_WAYS_OUT[lacking[0]]}. "
      f"{_advice(folder, spec)}"
    ) from error


@contextlib.contextmanager
def _blaming_labels(
  plan: assembly.Plan, workers: Sequence[str]
) -> Iterator[None]:
  """Has an error that wrong labels at the workers may cause name them."""
  try:
    yield
  except (RunError, FieldError, runtime.WorkerLostError):
    raise
  # TensorFlow's error comes from a worker, as a text of gRPC's.
  except Exception:
    if plan.worker_data is not None:
      labels.check(plan.worker_data, workers)
    raise


def _advice(folder: RunFolder, spec: RunSpec) -> str:
  """Returns how to go on with a run that came to no end."""
  if not folder.is_saved:
    if folder.label_correction.exists():
      return (
        f"No round was complete; {folder.path} keeps the corrected labels so "
        "far, and the same command goes on from there."
      )
    return "No round was complete, nothing is kept."
  return (
    f"{release.last_saved_round(folder)} of {spec.total_rounds} rounds are "
    f"saved in {folder.path}; the same command goes on from there."
  )


def _say_nothing(text: str) -> None:
  del text
