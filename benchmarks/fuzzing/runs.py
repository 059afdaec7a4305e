"""Damaged folders of runs, through all that reads them, and damaged models."""

import functools
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator

import tasks
from benchmarks.fuzzing import Case, End, damage, one_line
from tff_fair import experiments
from tff_fair.experiments.analysis.compare import compare
from tff_fair.experiments.presenting.report.page import report
from tff_fair.experiments.runs import finding, folder as run_folder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.sweeps import runner

_SAMPLE = experiments.RunSpec(
  algorithm="fedavg",
  total_rounds=2,
  rounds_per_evaluation=1,
  task_options={"num_clients": 4, "model": "logistic_regression"},
)


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields damages of a run's folder without end."""
  sample = train(folder / "sample").path
  while True:
    seed = rng.getrandbits(32)
    yield Case(
      room="runs",
      name=f"seed {seed}",
      run=functools.partial(_outcome, sample, seed),
    )


def train(path: pathlib.Path) -> experiments.Run:
  """Returns a run that is small enough to be damaged often."""
  return experiments.run(_SAMPLE, path, progress=False)


def _outcome(sample: pathlib.Path, seed: int) -> End:
  with tempfile.TemporaryDirectory() as folder:
    _, errors = trial(sample, pathlib.Path(folder), seed)
  ends = [one_line(str(error)) for error in errors]
  return ends[0] if ends else End.ACCEPTED


def trial(
  sample: pathlib.Path, folder: pathlib.Path, seed: int
) -> tuple[str, list[Exception]]:
  """Damages a copy of a run, and reads it."""
  copied = folder / f"run-{seed}"
  shutil.copytree(sample, copied)
  done = damage.of_run(copied, random.Random(seed))
  try:
    return done, read(copied, folder / "page.html", finding.open_run(sample))
  except Exception as error:
    error.add_note(f"seed {seed}: {done}")
    raise


def read(
  folder: pathlib.Path, page: pathlib.Path, whole: Run
) -> list[Exception]:
  """Reads a run by all ways that need no TensorFlow."""

  def values_of_run() -> None:
    run = finding.open_run(folder)
    run.client_names.to_dict()
    run.differences(run.spec)

  def resume() -> None:
    taken = run_folder.RunFolder(folder)
    with run_folder.take_folder([taken.path], whole.config):
      pass

  def show() -> None:
    runs = finding.find_whole(folder).runs
    compare(runs, columns=["mean", "loss"], unfinished=True)
    compare(runs, round="best", criterion="worst_10", unfinished=True)
    report(runs, page, unfinished=True, overwrite=True)

  errors: list[Exception] = []
  for reader in (
    values_of_run,
    resume,
    lambda: runner.state_of(whole.spec, folder),
    show,
  ):
    try:
      reader()
    except (experiments.FieldError, experiments.RunError) as error:
      errors.append(error)
  return errors


# Damaged models: runs that are exported, and files that are audited.

# The last is the folder of a SavedModel. No .h5: the HDF5 library may
# read a damaged file for ever, and nothing of ours can end it.
_SUFFIXES = (".keras", "")
_ERRORS = (experiments.RunError, experiments.FieldError, tasks.DataError)


def model_cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields damages of a run's folder, and of models, without end."""
  sample, task = train(folder / "sample"), tasks.load("digits")
  whole = {}
  for suffix in _SUFFIXES:
    whole[suffix] = folder / f"model{suffix}"
    sample.model().save(whole[suffix])
  while True:
    seed = rng.getrandbits(32)
    yield Case(
      room="export",
      name=f"seed {seed}",
      run=functools.partial(_export, sample.path, seed),
    )
    suffix = rng.choice(_SUFFIXES)
    yield Case(
      room=f"audit of {suffix or 'a SavedModel'}",
      name=f"seed {seed}",
      run=functools.partial(_audit, whole[suffix], task, seed),
    )


def _export(sample: pathlib.Path, seed: int) -> End:
  with tempfile.TemporaryDirectory() as folder:
    run = shutil.copytree(sample, pathlib.Path(folder, "run"))
    damage.of_run(run, random.Random(seed))
    return _end(lambda: experiments.export(run, run / "model.keras"))


def _audit(whole: pathlib.Path, task: tasks.Task, seed: int) -> End:
  rng = random.Random(seed)
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, whole.name)
    if whole.is_dir():
      shutil.copytree(whole, path)
    else:
      shutil.copyfile(whole, path)
    files = (p for p in (path, *path.rglob("*")) if p.is_file())
    file = rng.choice(sorted(files))
    change = damage.damaged
    if file.suffix == ".keras" and rng.random() < 0.5:
      change = damage.damaged_inside
    file.write_bytes(change(file.read_bytes(), rng)[1])
    return _end(lambda: experiments.audit(path, task))


def _end(read_model: Callable[[], object]) -> End:
  """Returns how the reading of a damaged model ends."""
  import tensorflow as tf  # noqa: PLC0415  Damaged runs need none of it.

  try:
    read_model()
  except _ERRORS as error:
    return one_line(str(error))
  finally:
    tf.keras.backend.clear_session()
  return End.ACCEPTED
