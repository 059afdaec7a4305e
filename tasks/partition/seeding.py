"""Where the randomness of a partition comes from."""

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int]


def generator(seed: Seed) -> np.random.Generator:
  """Returns a generator whose algorithm is named, not NumPy's default.

  Only its `permutation`, `integers`, `choice` and `dirichlet` are used here,
  whose values the NumPy versions that TensorFlow 2.14 allows agree on.
  """
  return np.random.Generator(np.random.PCG64(seed))
