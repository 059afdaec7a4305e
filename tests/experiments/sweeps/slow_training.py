"""Replaces training on a cluster by slow rounds, each of which is saved."""

import os
import shutil
import time

from tests.experiments import run_folders
from tff_fair.experiments import interruption
from tff_fair.experiments.runs import claim
from tff_fair.experiments.runs.folder import RunFolder

ROUNDS = 30
_SECONDS_PER_ROUND = 0.05


def train(spec, path, **options):
  """Continues a run; with seed 1, its rounds take a while.

  Writes the ids of the process and of its parent to NAME.pids.
  """
  del options
  folder = RunFolder(path)
  path.mkdir(exist_ok=True)
  with (
    interruption.record_signals(),
    folder.config.open("ab+") as file,
    claim.hold(file, path, print),
  ):
    pids = path.with_name(f"{path.name}.pids")
    pids.write_text(f"{os.getpid()} {os.getppid()}")
    folder.checkpoints.mkdir(exist_ok=True)
    done = folder.metrics.read_text().count("\n") if folder.is_saved else 0
    print(f"after round {done}", flush=True)
    for number in range(done + 1, ROUNDS + 1):
      with folder.metrics.open("a") as metrics:
        metrics.write(f"{number},{spec.seed}\n")
      (folder.checkpoints / f"program_state_{number}").mkdir()
      time.sleep(_SECONDS_PER_ROUND * spec.seed)
      interruption.check()
    made = run_folders.make(
      path.with_name(f"{path.name}.made"),
      algorithm=spec.algorithm,
      seed=spec.seed,
      total_rounds=spec.total_rounds,
    )
    made.joinpath("config.json").replace(folder.config)
    for result in sorted(made.iterdir()):
      result.replace(path / result.name)
    shutil.rmtree(made)
    pids.unlink()
