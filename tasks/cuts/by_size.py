"""Cuts at random, into parts of equal size or of sizes by a power law."""

import numpy as np

from tasks.cuts import checks, seeding, shares
from tff_fair.declared import FieldError


def iid(
  num_examples: int, num_clients: int, seed: seeding.Seed
) -> list[np.ndarray]:
  """Deals the examples out at random, in equal numbers up to one.

  Args:
    num_examples: Number of examples to deal out.
    num_clients: Number of clients, at most one per example.
    seed: Seed of the shuffle.

  Returns:
    Positions of each client's examples.

  Raises:
    FieldError: If there are more clients than examples.
  """
  checks.num_parts(num_clients, num_examples, "num_clients")
  return np.array_split(
    seeding.generator(seed).permutation(num_examples), num_clients
  )


def power_law(
  num_examples: int,
  num_clients: int,
  exponent: float,
  seed: seeding.Seed,
  *,
  min_size: int = 1,
) -> list[np.ndarray]:
  """Deals the examples out at random, few clients having most of them.

  Beyond `min_size` each, the client of rank r = 1, 2, ... has a share in
  proportion to r^-exponent (Zipf's law). Who has which rank is random.

  Args:
    num_examples: Number of examples to deal out.
    num_clients: Number of clients, at most one per example.
    exponent: At least 0: equal sizes. With 1 the second client has half of what
      the first one has.
    seed: Seed of the shuffle and of the ranks.
    min_size: Least number of examples of a client.

  Returns:
    Positions of each client's examples.

  Raises:
    FieldError: If the examples do not suffice, or the exponent is negative or
      no finite number.
  """
  checks.enough_examples(num_clients, min_size, num_examples)
  if not 0 <= exponent < np.inf:
    raise FieldError(
      "exponent", "expected a finite number of at least 0.", value=exponent
    )
  rng = seeding.generator(seed)
  ranks = 1.0 + rng.permutation(num_clients)
  sizes = min_size + shares.apportion(
    num_examples - min_size * num_clients, ranks**-exponent
  )
  return np.split(rng.permutation(num_examples), np.cumsum(sizes)[:-1])
