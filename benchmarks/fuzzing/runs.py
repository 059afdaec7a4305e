"""Damaged folders of runs, through all that reads them."""

import functools
import pathlib
import random
import shutil
from collections.abc import Iterator

from benchmarks import damaged_runs
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
