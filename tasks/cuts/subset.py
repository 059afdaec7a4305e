"""Chooses some of the clients of a data set."""

import numpy as np

from tasks.cuts import seeding
from tff_fair.declared import FieldError


def random_subset(
  size: int, num_clients: int | None, seed: seeding.Seed, *, what: str
) -> np.ndarray:
  """Returns a random subset of all clients.

  Args:
    size: Number of clients that there are.
    num_clients: Number of clients to choose; None takes all.
    seed: Seed of the choice.
    what: The clients that there are, in words, for the error message.

  Returns:
    Positions in ascending order, int64[num_clients].

  Raises:
    FieldError: If there are too few clients.
  """
  if num_clients is None:
    return np.arange(size)
  if num_clients > size:
    raise FieldError(
      "num_clients",
      f"expected at most {size}, the number of {what}.",
      value=num_clients,
    )
  return np.sort(
    seeding.generator(seed).choice(size, num_clients, replace=False)
  )
