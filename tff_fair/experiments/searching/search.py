"""Searching from Python: suggested settings, each trained in its folder."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from tff_fair.declared import Value
from tff_fair.experiments import grids, spec_text
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.searching import settings as search_settings
from tff_fair.experiments.searching import study, trials
from tff_fair.experiments.searching.searcher import Searcher
from tff_fair.experiments.searching.settings import SearchSettings
from tff_fair.experiments.searching.trials import Trial
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps.file import Sweep, SweptMethod
from tff_fair.experiments.sweeps.processes import Processes
from tff_fair.experiments.sweeps.ranges import Range
from tff_fair.experiments.sweeps.runner import Runner
from tff_fair.experiments.sweeps.setting_tables import Grid

_PLACE = "space"


@dataclasses.dataclass(frozen=True)
class Search:
  """What came of a search.

  Attributes:
    path: The folder of the search.
    settings: How it searched.
    trials: All trials, by number.
  """

  path: pathlib.Path
  settings: SearchSettings
  trials: tuple[Trial, ...]

  @property
  def best(self) -> list[Trial]:
    """The best trial; by several objectives, the Pareto set."""
    return trials.best(self.trials, self.settings)

  def runs(self, trial: Trial) -> list[Run]:
    """Returns the runs of a trial that have begun, one for each seed."""
    paths = [self.path / name for name in trial.runs]
    return [finding.open_run(path) for path in paths if path.exists()]


def search(
  spec: RunSpec,
  space: Mapping[str, Range | Iterable[object]],
  output_dir: str | os.PathLike[str],
  *,
  trials: int,
  seeds: Iterable[int] | None = None,
  sampler: str = "tpe",
  sampler_seed: int = 0,
  objective: str = "mean",
  pruner: str = "none",
  validation_fraction: float = 0.2,
  jobs: int = 1,
  progress: bool = True,
  round_timeout: float | None = None,
  worker_data: str | os.PathLike[str] | None = None,
) -> Search:
  """Searches the settings of a method; goes on with an interrupted search.

      found = search(
        RunSpec(algorithm="adafed", total_rounds=50),
        {"client_learning_rate": Range(0.001, 1, is_logarithmic=True)},
        "outputs/search",
        trials=30,
        objective="worst_10",
      )
      print(found.best)

  Args:
    spec: The run whose settings are to be searched.
    space: By the names of `RunSpec.vary`, a range or the values to choose from.
    output_dir: Folder of the runs' folders; it may exist.
    trials: How many settings to try.
    seeds: Each trial trains them all, and has their mean; by default that of
      `spec`.
    sampler: Who suggests settings: "tpe", "random", "qmc" or "grid".
    sampler_seed: Seed of the sampler.
    objective: The measure to improve, as `compare` names it; several, as
      "mean,worst_10", for a Pareto set.
    pruner: Who ends runs early: "none", "median" or "hyperband".
    validation_fraction: Share of the clients whose test data decide; 0 is all.
    jobs: How many runs go on side by side, each in a process of its own.
    progress: Whether to show on stderr how the search gets on.
    round_timeout: Seconds that a round of a run may take, as
      `experiments.run` takes it.
    worker_data: A folder of the runs' examples, likewise.

  Returns:
    The search, with all its trials.

  Raises:
    ValueError: If an argument is not valid, or Optuna is missing.
    RunError: If a folder holds something else, or a run fails; then the other
      trials have come to their end.
    Interrupted: If Ctrl-C or SIGTERM came; the same call goes on from there.
  """
  search_settings.check_installed()
  if jobs < 1:
    raise ValueError(f"jobs must be a positive integer, found {jobs!r}.")
  chosen = SearchSettings(
    trials=trials,
    sampler=sampler,
    sampler_seed=sampler_seed,
    objective=objective,
    pruner=pruner,
    validation_fraction=validation_fraction,
  )
  folder = pathlib.Path(output_dir)
  sweep = _sweep(spec, space, [spec.seed] if seeds is None else list(seeds))
  one, *others = study.of_sweep(sweep)
  if others:
    raise ValueError(
      "space: a task or its options have several values; search on each by "
      "itself."
    )
  runner = Runner(
    folder,
    executor=Processes(jobs),
    progress=progress,
    options={"round_timeout": round_timeout, "worker_data": worker_data},
  )
  searcher = Searcher([one], chosen, runner)
  failures = searcher.carry_out()
  if failures:
    raise RunError(
      f"{folder}: {len(failures)} runs failed; the same call tries them again. "
      f"{'; '.join(map(str, failures))}"
    )
  return Search(folder, chosen, tuple(searcher.trials[one.name]))


def _sweep(
  spec: RunSpec, space: Mapping[str, object], seeds: list[int]
) -> Sweep:
  """Returns a run and what varies as the sweep of one method."""
  searched: dict[str, Sequence[Value] | Range] = {}
  for name, values in space.items():
    if isinstance(values, Range):
      searched[grids.flat_name(name, spec)] = values
    else:
      choices = grids.choices(name, values)
      searched[grids.flat_name(name, spec, choices)] = choices
  searched["seed"] = seeds
  fixed: Grid = {
    name: [text]
    for name, text in spec_text.texts(spec).items()
    if name not in (*searched, "algorithm")
  }
  method = SweptMethod(spec.algorithm, spec.algorithm, searched, _PLACE)
  return Sweep(None, (method,), fixed, {}, frozenset(), _PLACE)
