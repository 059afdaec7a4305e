"""Which of a client's examples are its test examples."""

import functools
import hashlib

import numpy as np

from tasks import cuts
from tasks.conversions.client_data_file import TestChoice


def random_share(test_fraction: float, seed: int) -> TestChoice:
  """Returns the choice of a random share, at least one and not all.

  A client's choice depends on the seed, on its name and its number of examples,
  not on which other clients there are.
  """
  return functools.partial(_random_share, test_fraction, seed)


def last_share(test_fraction: float) -> TestChoice:
  """Returns the choice of the last examples, at least one and not all."""
  return functools.partial(_last_share, test_fraction)


def _random_share(
  test_fraction: float, seed: int, client: str, num_examples: int
) -> np.ndarray:
  digest = hashlib.sha256(client.encode()).digest()
  _, test = cuts.train_test_split(
    np.arange(num_examples),
    test_fraction,
    [seed, int.from_bytes(digest[:8], "big")],
  )
  is_test = np.zeros(num_examples, bool)
  is_test[test] = True
  return is_test


def _last_share(
  test_fraction: float, client: str, num_examples: int
) -> np.ndarray:
  del client
  num_test = min(max(round(num_examples * test_fraction), 1), num_examples - 1)
  return np.arange(num_examples) >= num_examples - num_test
