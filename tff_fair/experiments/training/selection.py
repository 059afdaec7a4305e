"""The best evaluation of a run so far, and whether it is worth going on."""

import dataclasses
import math
from collections.abc import Mapping

from tff_fair.experiments.scores import ACCURACY, Score

CRITERIA = ("mean", "worst_10")


@dataclasses.dataclass
class Selection:
  """Follows the evaluations of a run.

  Attributes:
    criterion: The statistic of the score that is to be good, one of `CRITERIA`.
    patience: How many evaluations in a row may bring no improvement before the
      run is to stop; `None` lets it go on.
    round_num: The round of the best evaluation, the first of equals; `None`
      before there is any.
    value: Its criterion.
    num_without_improvement: How many evaluations there were since.
    score: The score of the run.
  """

  criterion: str
  patience: int | None = None
  round_num: int | None = None
  value: float = math.nan
  num_without_improvement: int = 0
  score: Score = ACCURACY

  def add(self, round_num: int, statistics: Mapping[str, float]) -> bool:
    """Takes an evaluation, and returns whether it is the best so far.

    Args:
      round_num: Its round.
      statistics: Those of the score over the clients, by name. One that is not
        finite is never the best.
    """
    value = float(statistics[self.criterion])
    if math.isfinite(value) and (
      self.round_num is None or self.score.is_better(value, self.value)
    ):
      self.round_num, self.value = round_num, value
      self.num_without_improvement = 0
      return True
    self.num_without_improvement += 1
    return False

  @property
  def is_exhausted(self) -> bool:
    """Whether the run is to stop."""
    return (
      self.patience is not None
      and self.num_without_improvement >= self.patience
    )
