"""Chooses some of the clients of a data set."""

import numpy as np

from tasks.cuts import seeding


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
    ValueError: If there are too few clients.
  """
  if num_clients is None:
    return np.arange(size)
  if num_clients > size:
    raise ValueError(
      f"num_clients must be at most {size}, the number of {what}; found "
      f"{num_clients}."
    )
  return np.sort(
    seeding.generator(seed).choice(size, num_clients, replace=False)
  )
