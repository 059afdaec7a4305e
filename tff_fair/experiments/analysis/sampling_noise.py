"""Estimates how much of a spread of accuracies is noise of small test sets.

The result is an entry of a run's summary.
"""

from typing import TypedDict

import numpy as np
import numpy.typing as npt

from tff_fair import metrics

_ROUNDING = 1e-6  # Allows for the rounding of accuracies to float32.


class Noise(TypedDict):
  """An entry of a run's summary on the noise in clients' accuracies."""

  std: float  # The standard deviation that comes only from finite test sets.
  true_std: float  # The standard deviation without that noise.
  share: float  # The noise's share of the variance, in [0, 1].
  median_examples: float


def of_scores(
  scores: npt.ArrayLike, num_examples: npt.ArrayLike
) -> Noise | None:
  """Returns the noise in scores; None unless they are shares of examples."""
  values = np.asarray(scores, np.float64)
  if not ((values >= 0) & (values <= 1 + _ROUNDING)).all():
    return None
  if not metrics.are_shares_of_examples(values, num_examples):
    return None
  return of_accuracies(values, num_examples)


def of_accuracies(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike
) -> Noise | None:
  """Returns the noise in accuracies; None if it is unknown."""
  found = metrics.sampling_noise(accuracies, num_examples)
  if found is None or found.share is None:
    return None
  return Noise(
    std=found.std,
    true_std=found.true_std,
    share=found.share,
    median_examples=float(np.median(np.asarray(num_examples, np.float64))),
  )
