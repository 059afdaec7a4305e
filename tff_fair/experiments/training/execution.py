"""Runs an experiment: turns its settings into a folder of results."""

import contextlib
import errno
import importlib.util
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tasks
from tasks.formats import source_files
from tasks.models import initial_weights
from tff_fair import declared, runtime, summing
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption, startup
from tff_fair.experiments.analysis import majority
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.progress import Display, Say
from tff_fair.experiments.runs import (
  configuration,
  discovery,
  integrity,
  tables,
)
from tff_fair.experiments.runs.folder import RunFolder, take_folder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import combinations
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.texts import run_warnings, sentences
from tff_fair.experiments.training import (
  baselines,
  build,
  client_evaluation,
  client_updates,
  correction,
  event_files,
  plan,
  predictions,
  results,
  resume,
  rounds,
)
from tff_fair.experiments.training.callbacks import (
  CallbackError,
  RoundCallback,
  unique_names,
)
from tff_fair.runtime.compilation_cache import NO_CACHE, user_cache

_OUTPUTS = pathlib.Path("outputs")
_LOCAL, _DASK = "local", "dask"


def run(
  spec: RunSpec,
  output_dir: str | os.PathLike[str] | None = None,
  *,
  progress: bool = True,
  engine: str | None = None,
  scheduler: str | None = None,
  dask_workers: int | None = None,
  command: str | None = None,
  wandb: str | None = None,
  callbacks: Sequence[RoundCallback] = (),
  compilation_cache: bool = True,
  trust: bool = False,
) -> Run:
  """Trains, evaluates and saves a run; resumes an interrupted one.

  Without `engine`, the last call of `use_local` or `use_dask` in
  `tff_fair.runtime` decides where the run computes; without such a call, it
  computes in this program.

  Args:
    spec: The settings of the run.
    output_dir: The folder of the results. It must be new, or hold the same run:
      interrupted, with fewer `total_rounds`, or without `finetune_epochs`. That
      run then continues, and ends like a run that had these settings from the
      start. By default outputs/TASK-ALGORITHM, or the first free folder of
      outputs/TASK-ALGORITHM-2, -3, ...
    progress: Whether to report progress on stderr.
    engine: Where to compute: "local", in this program, or "dask", in the
      workers of a Dask cluster. By default, see above; with `scheduler` or
      `dask_workers`, "dask".
    scheduler: The Dask scheduler, such as "tcp://host:port"; by default Dask
      starts workers on this machine.
    dask_workers: Number of workers; by default one for each core.
    command: The command line to record in the folder; by default one that
      starts the same run.
    wandb: A project of Weights & Biases, which gets the settings and the
      evaluations; it does not affect results.
    callbacks: Callbacks on the rounds, see `RoundCallback`, called in this
      order; not called for a finished run that is only fine-tuned.
    compilation_cache: Whether to save compiled computations in the user's cache
      folder for later runs with the same settings, and to load those of earlier
      runs; see `tff_fair.runtime.compilation_cache`. Does not affect results.
    trust: Whether to run code that the file of `initial_model` holds or names.

  Returns:
    The finished run, or the pruned one.

  Raises:
    FieldError: If a setting does not suit the data or the method, or the Dask
      cluster cannot be reached.
    RunError: If the folder holds another run or other files, or cannot be
      written to; or if Dask's workers are lost again and again.
    tasks.DataError: If the data cannot be used.
    Interrupted: After Ctrl-C or SIGTERM. The run has then saved its last round;
      the same call resumes from there.
  """
  engine = _check_engine(engine, scheduler, dask_workers)
  places = _candidate_folders(spec, output_dir)
  if wandb is not None:
    startup.check_installed("wandb", "wandb", "wandb", wandb)
  unique_names(callbacks)  # Raises a `FieldError` if a callback is not valid.
  if any(callback.wants for callback in callbacks):
    client_updates.check_visible(spec)
  display = Display(is_silent=not progress)
  sums_securely = spec.aggregation == summing.SECURE
  if engine == _DASK:
    # Dask's workers start slowly; meanwhile, the program builds the run.
    _start_dask(scheduler, dask_workers, sums_securely, display.say)
  # Simulated secure sums need computations in a form that is not cached.
  uses_cache = compilation_cache and not sums_securely
  cache = user_cache() if uses_cache else NO_CACHE
  task = build.load_task(spec, trust=trust)
  parts = build.run_parts(spec, task, cache)
  select_engine(engine, sums_securely)
  client_evaluation.check_data(task)
  correction.check_labels_available(spec)
  config = _describe(spec, parts, output_dir, command)
  with (
    interruption.record_signals(),
    runtime.supervised(check=interruption.check, say=display.say),
    take_folder(
      places, config, display.say, lengthens=output_dir is not None
    ) as folder,
    runtime.in_parts_of(spec.clients_per_part),
  ):
    _report_settings(spec, parts, display)
    local_and_pooled = baselines.train_or_load(folder, spec, parts, display.say)
    parts = baselines.with_loss_reference(spec, parts, local_and_pooled)
    with _add_resume_advice(folder, spec.total_rounds):
      is_pruned = False
      if folder.next_configuration is not None:
        resume.prepare_fine_tuning(folder, parts, display.say)
      else:
        is_pruned = resume.train(
          folder, spec, parts, display, wandb=wandb, users=callbacks
        )
      folder.check_place()
      if is_pruned:
        folder.mark_pruned()
        integrity.write_checksums(folder)
      else:
        _write_results(folder, spec, parts, display, local_and_pooled)
    return _conclude(folder, display)


def _check_engine(
  engine: str | None, scheduler: str | None, dask_workers: int | None
) -> str | None:
  """Returns the engine: "dask" if `scheduler` or `dask_workers` is given."""
  if engine not in (None, _LOCAL, _DASK):
    raise FieldError("engine", f"expected {_LOCAL} or {_DASK}.", value=engine)
  if scheduler is None and dask_workers is None:
    return engine
  if engine == _LOCAL:
    raise FieldError(
      "engine",
      "takes no Dask cluster; leave scheduler and dask_workers out, or choose "
      f"{_DASK}.",
      value=engine,
    )
  return _DASK


def _describe(
  spec: RunSpec,
  parts: build.RunParts,
  output_dir: str | os.PathLike[str] | None,
  command: str | None,
) -> configuration.Configuration:
  task = parts.task
  return configuration.describe_run(
    spec,
    clients_per_round=parts.clients_per_round,
    aggregation=parts.aggregation,
    description=task.description,
    score=parts.scores.score,
    output_dir=None if output_dir is None else str(output_dir),
    command=command,
    initial_weights=initial_weights.digest(task.keras_model_fn),
    entropy_classes=parts.entropy_classes,
    data_digests=tasks.data_digests(task),
    data_folder=source_files.common_folder(task.files),
  )


def _candidate_folders(
  spec: RunSpec, output_dir: str | os.PathLike[str] | None
) -> Iterable[pathlib.Path]:
  """Returns folders that a run may use, the preferred one first."""
  if output_dir is not None:
    path = pathlib.Path(output_dir).expanduser()
    RunFolder(path).check_usable(spec.to_dict())
    return [path]
  first = _OUTPUTS / spec.short_name
  others = (first.with_name(f"{first.name}-{n}") for n in itertools.count(2))
  return itertools.chain([first], others)


def _report_settings(
  spec: RunSpec, parts: build.RunParts, display: Display
) -> None:
  values = ", ".join(
    f"{n}={declared.as_text(v)}" for n, v in spec.all_hparams.items()
  )
  display.say(f"{parts.task.name}: {parts.task.description}")
  display.say(
    f"{spec.algorithm}: {values or 'no hyperparameters'}, "
    f"{parts.aggregation} sums"
  )
  if parts.aggregation == summing.SECURE:
    display.say(plan.SUMS_ARE_SIMULATED)
  for line in combinations.ineffective_settings(spec):
    display.say(line)
  counts = results.label_counts(parts.task)
  if counts is not None:
    totals = counts.sum(0)
    rare = majority.rare_class(totals)
    if hint := sentences.rare_class(rare, totals, parts.task.class_titles):
      display.say(f"{parts.task.name}: {hint}")


def _write_results(
  folder: RunFolder,
  spec: RunSpec,
  parts: build.RunParts,
  display: Display,
  local_and_pooled: Mapping[str, baselines.Baseline],
) -> None:
  interruption.check()
  if spec.finetune_epochs is not None:
    number = len(parts.evaluated_ids)
    display.say(f"{folder.path}: fine-tuning the model at {number:,} clients.")
  predicted = predictions.results(folder, spec, parts, local_and_pooled)
  folder.check_place()
  event_files.write_hparams(folder, spec, parts.scores.score)
  summary = results.write(folder, spec, parts, predicted)
  if plan.PRIVACY in summary:
    display.say(plan.describe_privacy(summary[plan.PRIVACY]))


def _conclude(folder: RunFolder, display: Display) -> Run:
  """Reports how the run ended, and its problems; returns the run."""
  display.say(
    f"{folder.path}: pruned, because its results are too poor to go on."
    if folder.is_pruned
    else f"{folder.path}: done; it holds all tables and plots.\n"
  )
  found = discovery.read_run(folder.path)
  if idle := found.num_idle_rounds:
    cohorts = tables.read_required(folder.path, tables.COHORTS)
    advice = rounds.advise_on_idle_rounds(cohorts, idle, len(found.rounds))
    display.say(f"{found.path}: {advice}")
  for sentence in run_warnings.of_run(found):
    display.say(f"{found.path}: {sentence}")
  return found


def _start_dask(
  scheduler: str | None,
  num_workers: int | None,
  simulates_secure_sums: bool,
  say: Say,
) -> None:
  try:
    client = runtime.use_dask(
      scheduler,
      num_workers=num_workers,
      simulate_secure_sums=simulates_secure_sums,
    )
  except (ConnectionError, ModuleNotFoundError, ValueError) as error:
    field = "engine" if scheduler is None else "scheduler"
    raise FieldError(field, str(error), value=scheduler or _DASK) from error
  # Without bokeh, the link leads to a page without the dashboard.
  if importlib.util.find_spec("bokeh") and client.dashboard_link:
    say(f"Dask's dashboard: {client.dashboard_link}")


def select_engine(engine: str | None, simulates_secure_sums: bool) -> None:
  """Selects where computations run; for "dask", workers must be connected."""
  if engine is None:
    runtime.use_default()
  elif engine == _LOCAL:
    runtime.use_local()
  if simulates_secure_sums and runtime.compiles_natively():
    runtime.use_local(simulate_secure_sums=True)


# What users can do about an error of the operating system, by the error's
# message, which TensorFlow's errors quote.
_REMEDIES = {
  **dict.fromkeys(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)), "make room"
  ),
  **dict.fromkeys(
    map(os.strerror, (errno.EMFILE, errno.ENFILE)),
    "allow more of them (ulimit -n)",
  ),
}


@contextlib.contextmanager
def _add_resume_advice(folder: RunFolder, total_rounds: int) -> Iterator[None]:
  """Adds advice on how to resume the run to any error that ends it."""
  try:
    yield
  except interruption.Interrupted as interrupted:
    interrupted.advice = _advice(folder, total_rounds)
    raise
  except (runtime.WorkerLostError, CallbackError) as error:
    folder.check_place()
    text = str(error).removesuffix(".")
    raise RunError(
      f"{folder.path}: {text}. {_advice(folder, total_rounds)}"
    ) from error
  except Exception as error:
    folder.check_place()  # A moved folder would explain the error.
    # TensorFlow raises several error classes for the problems in `_REMEDIES`.
    lacking = [text for text in _REMEDIES if text in str(error)]
    if not lacking:
      raise
    raise RunError(
      f"{folder.path}: {lacking[0]}; {_REMEDIES[lacking[0]]}. "
      f"{_advice(folder, total_rounds)}"
    ) from error


def _advice(folder: RunFolder, total_rounds: int) -> str:
  """Returns a sentence on how to resume a run that did not finish."""
  if (moved := folder.displacement) is not None:
    return moved
  if folder.next_configuration is not None:
    return (
      f"{folder.path} holds the finished run; repeat the command to fine-tune "
      "it."
    )
  if not folder.is_saved:
    if folder.label_correction.exists():
      return (
        f"No round was complete; {folder.path} keeps the corrected labels so "
        "far: repeat the command to resume."
      )
    return "No round was complete; nothing is kept."
  return (
    f"{folder.last_saved_round} of {total_rounds} rounds are saved in "
    f"{folder.path}; repeat the command to resume."
  )
