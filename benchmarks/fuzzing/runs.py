"""Damaged folders of runs, through all that reads them, and damaged models."""

import functools
import pathlib
import random
import shutil
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

import tasks
from benchmarks import damaged_runs
from benchmarks.fuzzing import damage
from benchmarks.fuzzing.case import Case, End, one_line
from tff_fair import experiments

_SAMPLE = experiments.RunSpec(
  algorithm="fedavg",
  total_rounds=2,
  rounds_per_evaluation=1,
  task_options={"num_clients": 4, "model": "logistic_regression"},
)


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields damages of a run's folder without end.

  Args:
    rng: Draws them.
    folder: An empty folder to work in.
  """
  sample = train(folder / "sample").path
  while True:
    seed = rng.getrandbits(32)
    yield Case(
      room="runs",
      name=f"seed {seed}",
      run=functools.partial(_outcome, sample, folder / "damaged", seed),
    )


def train(path: pathlib.Path) -> experiments.Run:
  """Returns a run that is small enough to be damaged often."""
  return experiments.run(_SAMPLE, path, progress=False)


def _outcome(sample: pathlib.Path, folder: pathlib.Path, seed: int) -> End:
  folder.mkdir()
  try:
    _, errors = damaged_runs.trial(sample, folder, seed)
  finally:
    shutil.rmtree(folder)
  ends = [one_line(str(error)) for error in errors]
  return ends[0] if ends else End.ACCEPTED


# Damaged models: runs that are exported, and files that are audited.

# The last is the folder of a SavedModel. No .h5: the HDF5 library may
# read a damaged file for ever, and nothing of ours can end it.
_SUFFIXES = (".keras", "")
_ERRORS = (experiments.RunError, experiments.FieldError, tasks.DataError)


def model_cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields damages of a run's folder, and of models, without end.

  Args:
    rng: Draws them.
    folder: An empty folder to work in.
  """
  sample, task = train(folder / "sample"), tasks.load("digits")
  whole = {}
  for suffix in _SUFFIXES:
    whole[suffix] = folder / f"model{suffix}"
    sample.model().save(whole[suffix])
  damaged = folder / "damaged"
  while True:
    seed = rng.getrandbits(32)
    yield Case(
      room="export",
      name=f"seed {seed}",
      run=functools.partial(_export, sample.path, damaged, seed),
    )
    suffix = rng.choice(_SUFFIXES)
    yield Case(
      room=f"audit of {suffix or 'a SavedModel'}",
      name=f"seed {seed}",
      run=functools.partial(
        _audit, whole[suffix], task, damaged.with_suffix(suffix), seed
      ),
    )


def _export(sample: pathlib.Path, folder: pathlib.Path, seed: int) -> End:
  shutil.copytree(sample, folder)
  try:
    damaged_runs.damage(folder, np.random.default_rng(seed))
    experiments.export(folder, folder / "model.keras")
  except _ERRORS as error:
    return one_line(str(error))
  finally:
    shutil.rmtree(folder)
    tf.keras.backend.clear_session()
  return End.ACCEPTED


def _audit(
  whole: pathlib.Path, task: tasks.Task, path: pathlib.Path, seed: int
) -> End:
  rng = random.Random(seed)
  if whole.is_dir():
    shutil.copytree(whole, path)
    file = rng.choice(sorted(p for p in path.rglob("*") if p.is_file()))
  else:
    shutil.copyfile(whole, path)
    file = path
  change = damage.damaged
  if file.suffix == ".keras" and rng.random() < 0.5:
    change = damage.damaged_inside
  try:
    file.write_bytes(change(file.read_bytes(), rng)[1])
    experiments.audit(path, task)
  except _ERRORS as error:
    return one_line(str(error))
  finally:
    if path.is_dir():
      shutil.rmtree(path)
    else:
      path.unlink()
    tf.keras.backend.clear_session()
  return End.ACCEPTED
