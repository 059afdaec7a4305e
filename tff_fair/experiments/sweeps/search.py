"""Searches for settings: trains runs with settings that Optuna suggests.

A trial's settings depend only on its number and the trials before it, and the
folders of its runs hold its results. So an interrupted search continues as if
it had not been interrupted, if one run trains at a time. If several runs train
at a time, a suggestion also depends on which of them end first.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import grids, spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import executors, runner, trials, validation
from tff_fair.experiments.sweeps.jobs import Job, JobEnd
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.runner import Failure, Runner
from tff_fair.experiments.sweeps.setting_tables import Grid, Range, Setting
from tff_fair.experiments.sweeps.study import (
  Pruner,
  Sampler,
  SearchSettings,
  Study,
  check_installed,
  make_studies,
)
from tff_fair.experiments.sweeps.sweep_file import Sweep, SweptMethod
from tff_fair.experiments.sweeps.trials import (
  COMPLETE,
  FAILED,
  PRUNED,
  RUNNING,
  RecordedStudy,
  SearchRecord,
  Trial,
)


@dataclasses.dataclass
class Searcher:
  """Carries out the studies of a search, and records their trials."""

  studies: Sequence[Study]
  settings: SearchSettings
  runner: Runner
  title: str | None = None
  trials: dict[str, list[Trial]] = dataclasses.field(init=False)

  def __post_init__(self) -> None:
    found = trials.read_record(self.runner.folder)
    if found is not None:
      trials.check_same_search(
        self.runner.folder, found, self.settings, self.studies
      )
    self._known = {} if found is None else dict(found.studies)
    self.trials = {study.name: [] for study in self.studies}
    self._is_exhausted: set[str] = set()
    self._running: set[str] = set()
    self._failed: set[str] = set()

  def run(self) -> list[Failure]:
    """Starts or resumes the search; returns the runs that failed."""
    most = self.settings.trials * sum(len(s.seeds) for s in self.studies)
    self.runner.say(
      f"{self.runner.folder}: up to {self.settings.trials} trials for each of "
      f"{', '.join(study.name for study in self.studies)}. A run writes its "
      "output to its .log there, until it is finished."
    )
    with self.runner.hold_claim():
      return self.runner.run_jobs(
        self._next_job,
        self._describe_progress,
        self._note_end,
        total=most,
        done=self._num_done(),
      )

  def recorded_trials(self, study: Study) -> tuple[Trial, ...]:
    """Returns the trials of a study that the folder's record contains."""
    found = self._known.get(study.name)
    return found.trials if found else ()

  def _num_done(self) -> int:
    """Returns how many runs of recorded trials ended in earlier calls."""
    folders = [
      RunFolder(self.runner.folder / name)
      for study in self.studies
      for trial in self.recorded_trials(study)[: self.settings.trials]
      for name in trial.runs
    ]
    return sum(folder.is_finished or folder.is_pruned for folder in folders)

  def _describe_progress(self) -> str:
    states = [
      t.outcome.state for of_study in self.trials.values() for t in of_study
    ]
    return (
      f"{len(states) - states.count(RUNNING)} of "
      f"{self.settings.trials * len(self.studies)} trials have ended"
    )

  def _note_end(self, ended: JobEnd) -> None:
    self._running.remove(ended.job.name)
    if ended.status:
      self._failed.add(ended.job.name)

  def _next_job(self) -> Job | None:
    """Returns the next run's job, from a new trial if needed.

    Returns None if another run must end first, or no trial is left.
    """
    for study in self.studies:
      for trial in list(self.trials[study.name]):
        if (job := self._job_of(study, trial)) is not None:
          return job
    while open_studies := [s for s in self.studies if self._has_more(s)]:
      # Choose the study with the fewest running trials, because suggestions
      # learn only from trials that have ended.
      study = min(open_studies, key=self._load_key)
      begun = self._next_trial(study)
      if begun is not None and (job := self._job_of(study, begun)) is not None:
        return job
    return None

  def _has_more(self, study: Study) -> bool:
    return (
      study.name not in self._is_exhausted
      and len(self.trials[study.name]) < self.settings.trials
    )

  def _load_key(self, study: Study) -> tuple[int, int]:
    of_study = self.trials[study.name]
    return sum(t.outcome.state == RUNNING for t in of_study), len(of_study)

  def _next_trial(self, study: Study) -> Trial | None:
    """Begins a study's next trial, recorded or suggested, and returns it.

    Returns None if no combination of values is left.
    """
    from tff_fair.experiments.sweeps import optuna_study  # noqa: PLC0415

    before, recorded = self.trials[study.name], self.recorded_trials(study)
    number = len(before)
    settings = (
      recorded[number].settings
      if number < len(recorded)
      else optuna_study.suggest(study.name, study.space, self.settings, before)
    )
    if settings is None:
      self._is_exhausted.add(study.name)
      return None
    runs = study.runs(settings)
    trial = Trial(number, settings, tuple(run.name for run in runs))
    before.append(trial)
    if number == len(recorded):
      self._record()
    return trial

  def _record(self) -> None:
    """Records all trials that have begun, and keeps those recorded earlier."""
    runner.write_names(self.runner.folder, self.title, ())
    of_study = {
      study.name: RecordedStudy(
        study.name,
        study.method.name,
        study.space,
        (*begun, *self.recorded_trials(study)[len(begun) :]),
      )
      for study in self.studies
      for begun in [self.trials[study.name]]
    }
    others = {n: s for n, s in self._known.items() if n not in of_study}
    self._known = {**of_study, **others}
    trials.write_record(
      self.runner.folder, SearchRecord(self.settings, self._known)
    )

  def _job_of(self, study: Study, trial: Trial) -> Job | None:
    """Returns the job of a trial's next run, if it can start now.

    If the trial has ended, notes its outcome.
    """
    if trial.outcome.state != RUNNING:
      return None
    state, run = self._next_run(study, trial)
    if state != RUNNING:
      found = trials.read_outcome(
        self.runner.folder, trial.runs, self.settings, state
      )
      ended = dataclasses.replace(trial, outcome=found)
      self.trials[study.name][trial.number] = ended
    if run is None:
      return None
    self._running.add(run.name)
    # Record the name only now: the later seeds of a pruned trial never begin.
    runner.write_names(self.runner.folder, self.title, [run])
    if run.name != trial.runs[0] or self.settings.pruner == "none":
      return self.runner.job(run)
    from tff_fair.experiments.sweeps import optuna_study  # noqa: PLC0415

    pruning = optuna_study.PruningCallback(
      study.name,
      study.space,
      self.settings,
      tuple(self.trials[study.name][: trial.number]),
      trial.settings,
      run.spec.total_rounds,
    )
    return self.runner.job(run, callbacks=[pruning])

  def _next_run(
    self, study: Study, trial: Trial
  ) -> tuple[str, PlannedRun | None]:
    """Returns a trial's state, and the run to start next, if there is any."""
    for place, run in enumerate(study.runs(trial.settings)):
      if run.name in self._running:
        # The run is training, for this trial or one with the same settings.
        return RUNNING, None
      if run.name in self._failed:
        return FAILED, None
      path = self.runner.folder / run.name
      state = runner.state_of(run.spec, path)
      # Pruning ends a trial only at its first seed. If another search pruned
      # the run of a later seed, that run resumes here.
      is_pruned = state == "pruned" and place == 0
      if state != "finished" and not is_pruned:
        return RUNNING, run
      runner.keep_log(path)
      if is_pruned:
        return PRUNED, None
    return COMPLETE, None


_PLACE = "space"


@dataclasses.dataclass(frozen=True)
class Search:
  """A search: its folder, its settings, and all its trials by number."""

  path: pathlib.Path
  settings: SearchSettings
  trials: tuple[Trial, ...]

  @property
  def best(self) -> list[Trial]:
    """A list with the best trial; with several objectives, the Pareto set."""
    return trials.best(self.trials, self.settings)

  def runs(self, trial: Trial) -> list[Run]:
    """Returns the runs of a trial that have begun, one for each seed."""
    paths = [self.path / name for name in trial.runs]
    return [discovery.read_run(path) for path in paths if path.exists()]


def search(
  spec: RunSpec,
  space: Mapping[str, Range | Iterable[object]],
  output_dir: str | os.PathLike[str],
  *,
  trials: int,
  seeds: Iterable[int] | None = None,
  sampler: Sampler = "tpe",
  sampler_seed: int = 0,
  objective: str = "mean",
  pruner: Pruner = "none",
  validation_fraction: float = 0.2,
  jobs: int = 1,
  progress: bool = True,
) -> Search:
  """Searches for a method's best settings; resumes an interrupted search.

      found = search(
        RunSpec(algorithm="adafed", total_rounds=50),
        {"client_learning_rate": Range(0.001, 1, is_logarithmic=True)},
        "outputs/search",
        trials=30,
        objective="worst_10",
      )
      print(found.best)

  Args:
    spec: The settings that are the same for all runs.
    space: Each setting's range or values, by its name as in `RunSpec.vary`.
    output_dir: The folder for the runs' folders; it may exist.
    trials: How many combinations of settings to try.
    seeds: The seeds that each trial trains; a trial's value is the mean over
      them. By default the seed of `spec`.
    sampler: How settings are suggested: "tpe", "random", "qmc" or "grid".
    sampler_seed: The seed of the sampler.
    objective: The measure to improve, by its name in `compare`; or several,
      such as "mean,worst_10", to search the Pareto set.
    pruner: How runs are ended early: "none", "median" or "hyperband".
    validation_fraction: Share of the data for selection, see `SearchSettings`.
    jobs: The largest number of runs at a time, each in its own process.
    progress: Whether to show progress on stderr.

  Returns:
    The search, with all its trials.

  Raises:
    ValueError: If an argument is not valid, or Optuna is missing.
    RunError: If a folder holds another search or run, or a run fails; the other
      trials have then ended.
    Interrupted: After Ctrl-C or SIGTERM; the same call resumes from there.
  """
  check_installed()
  settings = SearchSettings(
    trials=trials,
    sampler=sampler,
    sampler_seed=sampler_seed,
    objective=objective,
    pruner=pruner,
    validation_fraction=validation_fraction,
  )
  folder = pathlib.Path(output_dir)
  sweep = _sweep(spec, space, [spec.seed] if seeds is None else list(seeds))
  runner = Runner(
    folder,
    executor=executors.create(executors.LOCAL, {}, folder=folder, jobs=jobs),
    progress=progress,
  )
  sweep = validation.with_fraction(sweep, validation_fraction, runner.say)
  study, *others = make_studies(sweep)
  if others:
    raise ValueError(
      "space: a task or its options have several values; run a separate search "
      "for each."
    )
  runner.check_limits()
  searcher = Searcher([study], settings, runner)
  if failures := searcher.run():
    raise RunError(
      f"{folder}: {len(failures)} runs failed; repeat the call to try them "
      f"again. {'; '.join(map(str, failures))}"
    )
  return Search(folder, settings, tuple(searcher.trials[study.name]))


def _sweep(
  spec: RunSpec, space: Mapping[str, object], seeds: list[int]
) -> Sweep:
  """Returns the sweep of one method with the search space and the seeds."""
  searched: dict[str, Setting] = {}
  for name, values in space.items():
    if isinstance(values, Range):
      searched[grids.flat_name(name, spec)] = Setting(values, _PLACE)
    else:
      choices = grids.choices(name, values)
      flat = grids.flat_name(name, spec, choices)
      searched[flat] = Setting(choices, _PLACE)
  searched["seed"] = Setting(seeds, _PLACE)
  fixed: Grid = {
    name: Setting([text], _PLACE)
    for name, text in spec_text.non_default_texts(spec).items()
    if name not in (*searched, "algorithm")
  }
  method = SweptMethod(spec.algorithm, spec.algorithm, searched, _PLACE)
  return Sweep(None, (method,), fixed, {}, _PLACE)
