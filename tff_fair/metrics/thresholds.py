"""Chooses the decision threshold that maximizes a score of a two-class model.

A client sends the histogram of its examples by class and log odds, defined in
`class_scores`; histograms are added over clients. Each edge of a bin is a
possible threshold, whose decisions and score follow from the histogram.
"""

import numpy as np
import numpy.typing as npt

from tff_fair.metrics import class_scores
from tff_fair.metrics.class_scores import BINS_PER_UNIT, NUM_BINS

GOALS = ("accuracy", "balanced_accuracy", "f1")


def histogram(
  is_positive: npt.ArrayLike, log_odds: npt.ArrayLike
) -> npt.NDArray[np.int64]:
  """Counts examples by class and log odds, int64[2, 4096].

  Row 0 counts the negative examples, row 1 the positive ones.
  """
  place = class_scores.histogram_bins(log_odds)
  is_positive_class = np.asarray(is_positive, bool)
  return np.stack(
    [
      np.bincount(place[chosen], minlength=NUM_BINS)
      for chosen in (~is_positive_class, is_positive_class)
    ]
  )


def choose(goal: str, counts: npt.ArrayLike) -> float:
  """Returns the least probability at which to predict the positive class.

  This threshold, in (0, 1), is the edge of a bin: among equally good edges, the
  nearest to 1/2. `counts` is the sum of `histogram` over clients, `goal` one of
  `GOALS`; F1 is that of the positive class.
  """
  # Each edge is a threshold: all bins above it are predicted to be positive.
  others, own = np.asarray(counts, np.float64)
  edges = (np.arange(NUM_BINS) - NUM_BINS // 2) / BINS_PER_UNIT
  values = np.nan_to_num(
    score_of_counts(
      goal,
      own.sum(),
      others.sum(),
      *map(class_scores.counts_from_top, (own, others)),
    )
  )
  reached = np.flatnonzero(values >= values.max() - 1e-12)
  edge = edges[reached[np.argmin(np.abs(edges[reached]))]]
  return float(1 / (1 + np.exp(-edge)))


def score_of_counts(
  goal: str,
  positives: npt.ArrayLike,
  negatives: npt.ArrayLike,
  true_positives: npt.ArrayLike,
  false_positives: npt.ArrayLike,
) -> npt.NDArray[np.float64]:
  """Returns the score `goal` of decisions from their counts.

  The score is NaN under the conditions of `class_scores.score`.
  """
  p, n, tp, fp = np.broadcast_arrays(
    *(
      np.asarray(count, np.float64)
      for count in (positives, negatives, true_positives, false_positives)
    )
  )
  counts = np.stack(
    [
      np.stack([n, n - fp + p - tp, n - fp], -1),
      np.stack([p, tp + fp, tp], -1),
    ],
    -2,
  )
  nothing = np.zeros(0)
  sums = class_scores.ClassSums(counts, nothing, nothing)
  return class_scores.score(goal, sums, 1)
