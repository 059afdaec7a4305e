"""Cuts in Dirichlet-distributed proportions, for each label or each client."""

import numpy as np

from tasks.cuts import checks, seeding, shares
from tff_fair.declared import FieldError

# Beyond these NumPy's sampler does not end or overflows; well inside them a
# class already sits at one client, or spreads evenly over all.
CONCENTRATION_RANGE = (1e-6, 1e9)


def dirichlet(
  labels: np.ndarray,
  num_clients: int,
  concentration: float,
  seed: seeding.Seed,
  *,
  min_size: int = 1,
) -> list[np.ndarray]:
  """Spreads each label over the clients in Dirichlet-distributed proportions.

  As in Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural
  Networks" (ICML 2019), Section 4: for each label, p ~ Dir(concentration · 1)
  over the clients. The usual code draws again until no client is smaller than
  min_size, which never ends for small concentrations. Here each client that
  came out too small takes random examples from the largest one.

  Args:
    labels: Labels of the examples, shape [num_examples].
    num_clients: Number of clients.
    concentration: From 1e-6 (each label at one client) to 1e9 (IID).
    seed: Seed of proportions, of the order within a label, and of the filling.
    min_size: Least number of examples of a client.

  Returns:
    Positions of each client's examples.

  Raises:
    FieldError: If the examples do not suffice or an argument is out of range.
  """
  labels = checks.vector(labels)
  _check_concentration(concentration)
  checks.enough_examples(num_clients, min_size, len(labels))
  rng = seeding.generator(seed)
  parts: list[list[int]] = [[] for _ in range(num_clients)]
  for label in np.unique(labels):
    positions = rng.permutation(np.flatnonzero(labels == label))
    shares = rng.dirichlet(np.full(num_clients, concentration))
    cuts = np.rint(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
    for part, piece in zip(parts, np.split(positions, cuts), strict=True):
      part.extend(piece)
  _fill_small_parts(parts, min_size, rng)
  return [np.asarray(part, np.int64) for part in parts]


def dirichlet_per_client(
  labels: np.ndarray, num_clients: int, concentration: float, seed: seeding.Seed
) -> list[np.ndarray]:
  """Gives clients of equal size Dirichlet-distributed proportions of labels.

  As in Hsu et al., "Measuring the Effects of Non-Identical Data Distribution
  for Federated Visual Classification" (2019): each client draws its own
  p ~ Dir(concentration · 1) over the labels. It gets its examples in these
  proportions, rounded. Once a label is used up, the others fill its place in
  proportion.

  Args:
    labels: Labels of the examples, shape [num_examples].
    num_clients: Number of clients.
    concentration: From 1e-6 (each client has one label, as long as it lasts) to
      1e9 (IID).
    seed: Seed of proportions and of the order within a label.

  Returns:
    Positions of each client's examples.

  Raises:
    FieldError: If the examples do not suffice or an argument is out of range.
  """
  labels = checks.vector(labels)
  checks.enough_examples(num_clients, 1, len(labels))
  _check_concentration(concentration)
  rng = seeding.generator(seed)
  stocks = [
    rng.permutation(np.flatnonzero(labels == label))
    for label in np.unique(labels)
  ]
  left = np.array([len(stock) for stock in stocks])
  parts = []
  for size in map(len, np.array_split(labels, num_clients)):
    proportions = rng.dirichlet(np.full(len(stocks), concentration))
    before = left.copy()
    while (missing := size - (before - left).sum()) > 0:
      weights = np.where(left > 0, proportions, 0.0)
      if weights.sum() == 0:
        weights = left.astype(np.float64)
      left -= np.minimum(shares.apportion(missing, weights), left)
    parts.append(
      np.concatenate(
        [
          stock[start:stop]
          for stock, start, stop in zip(stocks, left, before, strict=True)
        ]
      )
    )
  return parts


def _check_concentration(concentration: float) -> None:
  least, most = CONCENTRATION_RANGE
  if not least <= concentration <= most:
    raise FieldError(
      "concentration",
      f"expected between {least:g} and {most:g}.",
      value=concentration,
    )


def _fill_small_parts(
  parts: list[list[int]], min_size: int, rng: np.random.Generator
) -> None:
  sizes = np.array([len(part) for part in parts])
  for receiver in np.flatnonzero(sizes < min_size):
    while sizes[receiver] < min_size:
      # The largest part has more than min_size: the examples suffice for all.
      donor = int(np.argmax(sizes))
      given = parts[donor].pop(int(rng.integers(sizes[donor])))
      parts[receiver].append(given)
      sizes[donor] -= 1
      sizes[receiver] += 1
