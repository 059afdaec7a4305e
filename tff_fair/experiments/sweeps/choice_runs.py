"""Trains the runs by which `choosing` chooses a method; saves their results."""

import hashlib
import pathlib
from collections.abc import Sequence

import pandas as pd
import tqdm

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments import startup
from tff_fair.experiments.runs import discovery, tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import scores
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.seeds import Seeds
from tff_fair.files import atomic, csv_cells

SCORE = "score"  # The column with the name of the score.


class ChoiceRunner:
  """Trains runs, unless their results are in files already.

  `num_runs` counts all runs of the choice; `num_trained` counts only the runs
  that this program has trained, not those whose results were in files.
  """

  def __init__(
    self, folder: pathlib.Path, *, progress: bool, counts_groups: bool = False
  ) -> None:
    """Saves results in `folder`, with counts by group if `counts_groups`."""
    self._counts_groups = counts_groups
    self._folder = folder
    self._progress = progress
    self._task: tuple[Seeds, tasks.Task] | None = None
    self._cache: object = None
    self.num_runs = self.num_trained = 0

  def evaluate(
    self, stage: str, specs: Sequence[RunSpec]
  ) -> list[pd.DataFrame]:
    """Returns each run's last evaluation, a table with a row per client.

    `stage` is the title of the progress bar.
    """
    self.num_runs += len(specs)
    shown = tqdm.tqdm(
      specs,
      desc=stage,
      unit="run",
      dynamic_ncols=True,
      # None disables the bar only if there is no terminal.
      disable=None if self._progress else True,
    )
    return [tables.drop_unseen(self._evaluate(spec)) for spec in shown]

  def training_error(self, spec: RunSpec) -> str | None:
    """Trains a run and saves its results; returns its error's text, or None."""
    try:
      self._evaluate(spec)
    except FieldError as error:
      return str(error)
    return None

  def train_with_tape(self, spec: RunSpec) -> Run | None:
    """Trains a run with a tape, and returns it; a subclass may return None."""
    self.num_runs += 1
    return run_once(spec, self._folder.parent / "tape", progress=False)

  def has_groups(self, spec: RunSpec) -> bool:
    """Returns whether a run's task has groups of people and class labels."""
    task = self._task_of(spec)
    return task.test.groups is not None and task.has_class_labels

  def data_digests(self, spec: RunSpec) -> dict[str, str]:
    """Returns the digests of a run's data, by the name of the data."""
    return tasks.data_digests(self._task_of(spec))

  def _evaluate(self, spec: RunSpec) -> pd.DataFrame:
    digest = hashlib.sha256(spec.to_toml().encode()).hexdigest()[:20]
    file = self._folder / f"{digest}.csv"
    if not file.exists():
      self._folder.mkdir(parents=True, exist_ok=True)
      atomic.write(file, csv_cells.csv_text(self._train(spec)))
      self.num_trained += 1
    return pd.read_csv(file)

  def _train(self, spec: RunSpec) -> pd.DataFrame:
    task = self._task_of(spec)
    from tff_fair.experiments.training import in_memory  # noqa: PLC0415

    if self._cache is None:
      self._cache = in_memory.ProgramCache()
    assert isinstance(self._cache, in_memory.ProgramCache)
    found = in_memory.train_and_evaluate(
      spec, task, self._cache, counts_groups=self._counts_groups
    )
    return pd.DataFrame(found.clients).assign(**{SCORE: found.score.name})

  def _task_of(self, spec: RunSpec) -> tasks.Task:
    """Returns a run's task; reuses the last one if the seeds are the same."""
    if self._task is None or self._task[0] != spec.seeds:
      startup.check_limits()
      with startup.fast_import():  # This imports TensorFlow.
        from tff_fair.experiments.training import build  # noqa: PLC0415
      self._task = spec.seeds, build.load_task(spec)
    return self._task[1]


def run_once(spec: RunSpec, path: pathlib.Path, *, progress: bool) -> Run:
  """Trains a run of a choice, unless an earlier program has finished it."""
  if RunFolder(path).is_finished:
    return discovery.read_run(path)
  from tff_fair.experiments.training import execution  # noqa: PLC0415

  return execution.run(spec, path, progress=progress)


def score_of(clients: pd.DataFrame) -> Score:
  """Returns the score that a table of results names."""
  return scores.BY_NAME[clients[SCORE].iloc[0]]
