"""Cuts each client's examples into train and test, on demand."""

from collections.abc import Callable

import numpy as np

from tasks import cuts
from tasks.task import Arrays, Split


def local_split(
  whole: Split, test_fraction: float, seed: int
) -> tuple[Split, Split]:
  """Cuts every client's examples at random into train and test.

  Args:
    whole: All examples, at least two of each client.
    test_fraction: Share of the test side, between 0 and 1.
    seed: Seed of the cut.

  Returns:
    Train and test half; each client is cut on demand.
  """
  sizes = whole.num_examples
  num_test = cuts.num_test_examples(sizes, test_fraction)

  def half(side: int) -> Callable[[int], Arrays]:
    def load(client_id: int) -> Arrays:
      x, y = whole.load(client_id)
      parts = cuts.train_test_split(
        np.arange(len(y)), test_fraction, (seed, client_id)
      )
      return x[parts[side]], y[parts[side]]

    return load

  return (
    Split(num_examples=sizes - num_test, load=half(0)),
    Split(num_examples=num_test, load=half(1)),
  )
