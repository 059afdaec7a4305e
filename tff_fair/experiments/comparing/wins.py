"""How many clients are better off with a method, as well off, or worse off."""

from typing import NamedTuple

import numpy as np

from tff_fair.experiments.comparing import client_results
from tff_fair.experiments.comparing.client_results import Seeds
from tff_fair.experiments.scores import ACCURACY, Score


class Record(NamedTuple):
  """How many clients are better off with a method, as well off, worse off."""

  wins: int
  ties: int
  losses: int


def record(method: Seeds, baseline: Seeds, score: Score = ACCURACY) -> Record:
  """Returns how many clients win, tie and lose, by their score.

  A client counts once, by the mean of its differences over the common seeds and
  their evaluations. Differences of float32's rounding are ties, and so is one
  from infinity to infinity.

  Args:
    method: Evaluations of the method by seed.
    baseline: The same of the baseline.
    score: Their score.
  """
  changes: dict[int, list[tuple[float, float]]] = {}
  with np.errstate(invalid="ignore"):
    for pair in client_results.pairs(method, baseline):
      before, after = (
        np.mean([e.score for e in evaluations], 0)
        for evaluations in (pair.baseline, pair.method)
      )
      of_pair = zip(after - before, score.tie(before, after), strict=True)
      for client, change in zip(pair.ids.tolist(), of_pair, strict=True):
        changes.setdefault(client, []).append(change)
    means = np.array([np.mean(found, 0) for found in changes.values()])
    differences, limits = means.reshape(-1, 2).T
  rises = int((differences > limits).sum())
  falls = int((differences < -limits).sum())
  wins, losses = (rises, falls) if score.higher_is_better else (falls, rises)
  return Record(wins, differences.size - wins - losses, losses)
