"""The noise of small test sets in the spread of a run's clients, in words.

`tff_fair.metrics.sampling_noise` has the definition.
"""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from tff_fair import metrics

_ROUNDING = 1e-6  # Accuracies are ratios in float32.
KEY = "test_accuracy_noise"  # In the summary of a run.


class Noise(TypedDict):
  """The noise in the spread of the clients' accuracies, as runs keep it.

  Attributes:
    std: The std over clients that their test sets alone would make.
    true_std: The std over clients without it.
    share: Its share of the variance over clients, in [0, 1].
    median_examples: The median of the clients' numbers of test examples.
  """

  std: float
  true_std: float
  share: float
  median_examples: float


def of_clients(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike
) -> Noise | None:
  """Returns the noise in a spread of what runs call accuracies.

  Args:
    accuracies: float[K].
    num_examples: float[K], test examples behind each.

  Returns:
    As `of_accuracies`; None also where the values are no shares of the
    examples: as of a metric that counts words, or an error.
  """
  values = np.asarray(accuracies, np.float64)
  if not ((values >= 0) & (values <= 1 + _ROUNDING)).all():
    return None
  if not metrics.are_shares_of_examples(values, num_examples):
    return None
  return of_accuracies(values, num_examples)


def of_accuracies(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike
) -> Noise | None:
  """Returns the noise in a spread of accuracies.

  Args:
    accuracies: float[K], in [0, 1], shares of the examples that are right.
    num_examples: float[K], test examples behind each.

  Returns:
    The noise; None where nothing tells it: there is no spread, or all clients
    have one example.
  """
  found = metrics.sampling_noise(accuracies, num_examples)
  if found is None or found.share is None:
    return None
  return Noise(
    std=found.std,
    true_std=found.true_std,
    share=found.share,
    median_examples=float(np.median(np.asarray(num_examples, np.float64))),
  )


def sentence(std: float, noise: Noise | Mapping[str, float]) -> str:
  """Returns a sentence about the noise in a std.

  Args:
    std: The std over clients, of accuracies in [0, 1].
    noise: The noise in it.

  Returns:
    "Of the std of 8.10, about 2.30 are expected from test sets of 12 examples
    alone (8 % of the variance)."; accuracies are in percent.
  """
  examples = f"test sets of {_examples(noise['median_examples'])}"
  if noise["share"] >= 1:
    return (
      f"The std of {100 * std:.2f} is no more than {examples} alone make: they "
      f"make about {100 * noise['std']:.2f}."
    )
  return (
    f"Of the std of {100 * std:.2f}, about {100 * noise['std']:.2f} are "
    f"expected from {examples} alone ({percent(noise['share'])} of the "
    "variance)."
  )


def percent(share: float) -> str:
  """Returns a share of the variance as "8 %"; a tiny one as "under 1 %"."""
  return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _examples(median: float) -> str:
  return "1 example" if median == 1 else f"{median:,.10g} examples"
