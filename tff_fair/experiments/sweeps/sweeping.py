"""Sweeping from Python: runs, each trained in a folder of its own."""

import os
import pathlib
from collections.abc import Iterable, Mapping

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps import executors, plan
from tff_fair.experiments.sweeps.runner import Runner


def sweep(
  specs: Iterable[RunSpec],
  output_dir: str | os.PathLike[str],
  jobs: int | None = None,
  progress: bool = True,
  round_timeout: float | None = None,
  *,
  executor: str = executors.LOCAL,
  executor_options: Mapping[str, object] | None = None,
  worker_data: str | os.PathLike[str] | None = None,
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
    jobs: How many runs go on side by side, at most, each in a process of its
      own. By default one on this machine, and on a cluster as many as it takes.
    progress: Whether to show on stderr how the sweep gets on.
    round_timeout: Seconds that a round of a run may take, as
      `experiments.run` takes it.
    executor: Where runs are carried out: "local", "submitit" (Slurm) or "dask".
      On a cluster, all hosts need the folder under the same path.
    executor_options: Options of a cluster by name: those of submitit, such as
      `slurm_partition`, or Dask's `scheduler`; and `restarts`, how often a run
      goes on by itself after its job was lost.
    worker_data: A folder of the runs' examples, as `experiments.run` takes it.

  Returns:
    The finished runs in the order of `specs`.

  Raises:
    ValueError: If `jobs` is not positive, or the executor or an option of it is
      not valid.
    RunError: If a folder holds another run, or if a run fails; then the other
      runs have come to their end.
    Interrupted: If Ctrl-C or SIGTERM came; the runs have then saved their
      rounds, and the same call goes on from there.
  """
  if jobs is not None and jobs < 1:
    raise ValueError(f"jobs must be a positive integer, found {jobs!r}.")
  planned = plan.of_specs(list(specs))
  folder = pathlib.Path(output_dir)
  carried_out_by = executors.create(
    executor, executor_options or {}, folder=folder, jobs=jobs
  )
  once = list({run.name: run for run in planned}.values())
  runner = Runner(
    folder,
    executor=carried_out_by,
    progress=progress,
    options={"round_timeout": round_timeout, "worker_data": worker_data},
  )
  failures = runner.carry_out(once, runner.states(once))
  if failures:
    raise RunError(
      f"{folder}: {len(failures)} of {len(once)} runs failed; the same call "
      f"tries them again. {'; '.join(map(str, failures))}"
    )
  return [finding.open_run(folder / run.name) for run in planned]
