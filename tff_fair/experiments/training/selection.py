"""The best evaluation of a run so far, and whether it is worth going on."""

import dataclasses
from collections.abc import Mapping

CRITERIA = ("mean", "worst_10")


@dataclasses.dataclass
class Selection:
  """Follows the evaluations of a run.

  Attributes:
    criterion: The statistic of accuracy that is to be large, one of `CRITERIA`.
    patience: How many evaluations in a row may bring no improvement before the
      run is to stop; `None` lets it go on.
    round_num: The round of the best evaluation, the first of equals; `None`
      before there is any.
    value: Its criterion.
    num_without_improvement: How many evaluations there were since.
  """

  criterion: str
  patience: int | None = None
  round_num: int | None = None
  value: float = -1.0
  num_without_improvement: int = 0

  def add(self, round_num: int, accuracy: Mapping[str, float]) -> bool:
    """Takes an evaluation, and returns whether it is the best so far.

    Args:
      round_num: Its round.
      accuracy: Statistics of accuracy over the clients, by name.
    """
    value = float(accuracy[self.criterion])
    if value > self.value:
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
