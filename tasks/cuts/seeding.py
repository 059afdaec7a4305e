"""Where the randomness of a partition comes from."""

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int]


def generator(seed: Seed) -> np.random.Generator:
  """Returns a generator whose algorithm is named, not NumPy's default.

  The cuts use only its `permutation`, `integers`, `choice` and `dirichlet`: all
  versions of NumPy that TensorFlow 2.14 allows agree on their values.
  """
  return np.random.Generator(np.random.PCG64(seed))
