"""The score that runs have in common."""

import math
from collections.abc import Sequence

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.scores import Score


def of_runs(runs: Sequence[Run]) -> Score:
  """Returns the score of runs, with the decimals that their numbers need.

  The run with the smallest mean decides them.

  Args:
    runs: At least one.

  Raises:
    RunError: If they have different scores.
  """
  first = runs[0]
  for other in runs[1:]:
    if other.score is not first.score:
      raise RunError(
        f"{other.path}: its clients have {other.score.plural}, those of "
        f"{first.path} have {first.score.plural}; compare the two apart."
      )
  return first.score.fitting(min(map(_last_mean, runs)))


def _last_mean(run: Run) -> float:
  table = run.evaluations
  if table.empty:
    return math.inf
  last = table.loc[table[ROUND].idxmax(), f"{run.score.name}/mean"]
  return float(last) if last > 0 else math.inf
