"""Defines callbacks that end a run early, and that find its best evaluation."""

import math
from collections.abc import Mapping

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.training import rounds
from tff_fair.experiments.training.callbacks import RoundCallback, Verdict
from tff_fair.experiments.training.round_state import VALIDATION, RoundState


class BestEvaluationTracker(RoundCallback):
  """Finds a run's best evaluation; stops the run if no better one follows.

  `patience` is the number of evaluations to wait for a better one.
  """

  def __init__(
    self,
    criterion: str,
    patience: int | None = None,
    *,
    score: Score = ACCURACY,
    on_validation: bool = False,
  ) -> None:
    self.criterion = criterion
    group = f"{VALIDATION}/" if on_validation else ""
    self.column = f"{group}{score.name}/{criterion}"
    self.round_num: int | None = None
    self.value = math.nan
    self.num_without_improvement = 0
    self._patience = patience
    self._score = score

  @property
  def reason(self) -> str:
    """A phrase that tells users why the run stops."""
    return (
      f"{self.num_without_improvement} evaluations in a row have not improved "
      f"{self.column}"
    )

  def on_start(self, run: Run) -> None:
    """Records the evaluations that a resumed run already has."""
    rows = run.evaluations
    if self.column not in rows and len(rows):
      path = RunFolder(run.path).evaluations
      raise RunError(f"{path}: has no column {self.column!r}.")
    for row in rows.to_dict("records"):
      if row[ROUND] > 0:
        self.add(int(row[ROUND]), {self.criterion: row[self.column]})

  def on_evaluation(self, state: RoundState) -> Verdict | None:
    """Records an evaluation; stops the run if `patience` is exhausted."""
    if not state.round_num or state.evaluation is None:
      return None
    state.is_best = self.add(
      state.round_num, state.evaluation.selection_statistics
    )
    is_over = self.num_without_improvement >= (self._patience or math.inf)
    return "stop" if is_over else None

  def add(self, round_num: int, statistics: Mapping[str, float]) -> bool:
    """Records an evaluation; returns whether it is the best so far."""
    value = float(statistics[self.criterion])
    if math.isfinite(value) and (
      self.round_num is None or self._score.is_better(value, self.value)
    ):
      self.round_num, self.value = round_num, value
      self.num_without_improvement = 0
      return True
    self.num_without_improvement += 1
    return False


class StationarityStop(RoundCallback):
  """Stops a run once its measured Pareto stationarity is at most `bound`."""

  def __init__(self, bound: float) -> None:
    self._bound = bound
    self.reason = f"the Pareto stationarity is {bound:g} or less"

  def on_round(self, state: RoundState) -> Verdict | None:
    """Returns "stop" if the stationarity is measured and at most `bound`."""
    found = rounds.stationarity(state)
    return "stop" if found is not None and found <= self._bound else None
