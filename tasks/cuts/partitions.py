"""Divides a data set by label, by size, or in Dirichlet proportions."""

from typing import Any

import numpy as np

from tasks.cuts import draws
from tff_fair.declared import FieldError


def _check_clients(num_clients: int, num_examples: int) -> None:
  """Raises a FieldError unless each client can have an example."""
  if not 1 <= num_clients <= num_examples:
    raise FieldError(
      "num_clients",
      f"expected between 1 and the number of examples, {num_examples}.",
      value=num_clients,
    )


def _check_sizes(num_clients: int, min_size: int, num_examples: int) -> None:
  """Raises a FieldError unless each client can have `min_size` examples."""
  _check_clients(num_clients, num_examples)
  if not 0 <= min_size * num_clients <= num_examples:
    raise FieldError(
      "min_size",
      f"{num_clients} clients of this size need {min_size * num_clients} "
      f"examples, found {num_examples}.",
      value=min_size,
    )


def _apportion(total: int, weights: np.ndarray) -> np.ndarray:
  """Splits `total` into integers in proportion to `weights`, int64[weights].

  It rounds up the shares with the largest remainders; ties go to the first.
  """
  exact = total * (weights / weights.sum())
  whole = np.floor(exact).astype(np.int64)
  # Rounded, so that equal weights give equal remainders on every machine.
  by_remainder = np.argsort(-np.round(exact - whole, 9), kind="stable")
  whole[by_remainder[: total - whole.sum()]] += 1
  return whole


def label_shards(
  labels: np.ndarray, num_clients: int, shards_per_client: int, seed: draws.Seed
) -> list[np.ndarray]:
  """Sorts examples by label, and gives each client random shards of equal size.

  This is the pathological non-IID partition of McMahan et al.,
  "Communication-Efficient Learning of Deep Networks from Decentralized Data"
  (AISTATS 2017), Section 3.
  """
  _check_clients(num_clients, len(labels))
  most = len(labels) // num_clients
  if not 1 <= shards_per_client <= most:
    raise FieldError(
      "shards_per_client",
      f"expected between 1 and {most}, the number of examples of a client.",
      value=shards_per_client,
    )
  num_shards = num_clients * shards_per_client
  rng = draws.generator(seed)
  shuffled = rng.permutation(len(labels))
  by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
  shards = np.array_split(by_label, num_shards)
  assignment = rng.permutation(num_shards).reshape(
    num_clients, shards_per_client
  )
  return [np.concatenate([shards[s] for s in hand]) for hand in assignment]


def few_labels(
  labels: np.ndarray, num_clients: int, labels_per_client: int, seed: draws.Seed
) -> list[np.ndarray]:
  """Gives each client random labels, and divides each label's examples equally.

  This is for AdaFed's FEMNIST-skewed, which follows Li et al., "Federated
  Optimization in Heterogeneous Networks" (MLSys 2020); this project chose equal
  shares. Examples of a label that no client draws are left out. A part may be
  empty if its labels have fewer examples than clients.
  """
  _check_clients(num_clients, len(labels))
  values = np.unique(labels)
  if not 1 <= labels_per_client <= len(values):
    raise FieldError(
      "labels_per_client",
      f"expected between 1 and the number of labels, {len(values)}.",
      value=labels_per_client,
    )
  rng = draws.generator(seed)
  hands = np.stack(
    [
      rng.permutation(len(values))[:labels_per_client]
      for _ in range(num_clients)
    ]
  )
  parts: list[list[np.ndarray]] = [[] for _ in range(num_clients)]
  for index, value in enumerate(values):
    holders = np.flatnonzero((hands == index).any(axis=1))
    if len(holders) > 0:
      positions = rng.permutation(np.flatnonzero(labels == value))
      pieces = np.array_split(positions, len(holders))
      # Assigned at random, since the first pieces may be larger by one.
      for holder, piece in zip(rng.permutation(holders), pieces, strict=True):
        parts[holder].append(piece)
  return [np.concatenate(pieces) for pieces in parts]


def match_label_proportions(
  parts: list[np.ndarray],
  labels: np.ndarray,
  other_labels: np.ndarray,
  seed: draws.Seed,
) -> list[np.ndarray]:
  """Divides a second data set in the same way as the first, label by label.

  Each client gets a share of each label's examples in proportion to how many it
  has in `parts`, the clients' parts of the first data set. Examples with a
  label that no part has are left out.
  """
  others: list[list[np.ndarray]] = [[] for _ in parts]
  rng = draws.generator(seed)
  for value in np.unique(other_labels):
    positions = rng.permutation(np.flatnonzero(other_labels == value))
    counts = [np.count_nonzero(labels[part] == value) for part in parts]
    ends = np.cumsum(counts, dtype=np.int64)
    if ends[-1] > 0:
      # Rounds to the nearest integer, without floats.
      bounds = (2 * ends[:-1] * len(positions) + ends[-1]) // (2 * ends[-1])
      for other, piece in zip(others, np.split(positions, bounds), strict=True):
        other.append(piece)
  nothing = np.zeros(0, np.int64)
  return [np.concatenate([nothing, *pieces]) for pieces in others]


def by_value(values: np.ndarray) -> tuple[list[Any], list[np.ndarray]]:
  """Returns the distinct values, ascending, and the positions of each value."""
  if len(values) == 0:
    raise ValueError("There are no examples to cut.")
  unique, index, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  order = np.argsort(index, kind="stable")
  return unique.tolist(), np.split(order, np.cumsum(counts)[:-1])


def iid(
  num_examples: int, num_clients: int, seed: draws.Seed
) -> list[np.ndarray]:
  """Divides examples at random into parts whose sizes differ by at most one."""
  _check_clients(num_clients, num_examples)
  return np.array_split(
    draws.generator(seed).permutation(num_examples), num_clients
  )


def power_law(
  num_examples: int,
  num_clients: int,
  exponent: float,
  seed: draws.Seed,
  *,
  min_size: int = 1,
) -> list[np.ndarray]:
  """Divides examples at random, so that few clients have most of them.

  Each client gets `min_size` examples, and the client of rank r = 1, 2, ... a
  share of the rest proportional to r^-exponent (Zipf's law). Ranks are random.
  """
  _check_sizes(num_clients, min_size, num_examples)
  rng = draws.generator(seed)
  ranks = 1.0 + rng.permutation(num_clients)
  sizes = min_size + _apportion(
    num_examples - min_size * num_clients, ranks**-exponent
  )
  return np.split(rng.permutation(num_examples), np.cumsum(sizes)[:-1])


# Outside this range, NumPy's Dirichlet sampler does not end, or overflows. Less
# extreme values already give a class to a single client, or spread it evenly.
CONCENTRATION_RANGE = (1e-6, 1e9)


def dirichlet(
  labels: np.ndarray,
  num_clients: int,
  concentration: float,
  seed: draws.Seed,
  *,
  min_size: int = 1,
) -> list[np.ndarray]:
  """Spreads each label over the clients in Dirichlet-distributed proportions.

  As in Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural
  Networks" (ICML 2019), Section 4: for each label, p ~ Dir(concentration · 1)
  over the clients. Other implementations redraw until no client is smaller than
  min_size, which never ends for small concentrations. Here each client that is
  too small takes random examples from the largest client.
  """
  _check_sizes(num_clients, min_size, len(labels))
  rng = draws.generator(seed)
  parts: list[list[int]] = [[] for _ in range(num_clients)]
  for label in np.unique(labels):
    positions = rng.permutation(np.flatnonzero(labels == label))
    shares = rng.dirichlet(np.full(num_clients, concentration))
    ends = np.rint(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
    for part, piece in zip(parts, np.split(positions, ends), strict=True):
      part.extend(piece)
  _fill_small_parts(parts, min_size, rng)
  return [np.asarray(part, np.int64) for part in parts]


def dirichlet_per_client(
  labels: np.ndarray, num_clients: int, concentration: float, seed: draws.Seed
) -> list[np.ndarray]:
  """Gives clients of equal size Dirichlet-distributed proportions of labels.

  As in Hsu et al., "Measuring the Effects of Non-Identical Data Distribution
  for Federated Visual Classification" (2019): each client draws
  p ~ Dir(concentration · 1) over the labels, and gets examples in these
  proportions, rounded. If clients need more examples of a label than there are,
  each gets the same share of its need, and proportionally more examples of
  other labels. So all clients' proportions have the same distribution; if
  clients took examples in turn, the last clients would get the remnants.
  """
  _check_clients(num_clients, len(labels))
  rng = draws.generator(seed)
  stocks = [
    rng.permutation(np.flatnonzero(labels == label))
    for label in np.unique(labels)
  ]
  proportions = np.stack(
    [
      rng.dirichlet(np.full(len(stocks), concentration))
      for _ in range(num_clients)
    ]
  )
  sizes = np.array([len(p) for p in np.array_split(labels, num_clients)])
  counts = _round_counts(
    _allocate(np.array([len(s) for s in stocks]), sizes, proportions), rng
  )
  pieces = [
    np.split(stock, np.cumsum(of_label)[:-1])
    for stock, of_label in zip(stocks, counts.T, strict=True)
  ]
  return [np.concatenate(of_client) for of_client in zip(*pieces, strict=True)]


def _allocate(
  stock: np.ndarray, sizes: np.ndarray, proportions: np.ndarray
) -> np.ndarray:
  """Returns each client's amount of each label, float64[clients, labels].

  `stock`, int64[labels], has the number of examples of each label; `sizes`,
  int64[clients], the number of examples that each client gets; `proportions`,
  float64[clients, labels], the proportions of labels that each client drew.
  """
  shared = np.zeros(proportions.shape)
  # Each iteration uses up a label's examples, or satisfies all clients.
  for _ in range(len(stock) + 1):
    left = stock - shared.sum(axis=0)
    left[left < _NEGLIGIBLE_SHARE * stock] = 0.0
    missing = sizes - shared.sum(axis=1)
    weights = np.where(left > 0, proportions, 0.0)
    weights[weights.sum(axis=1) == 0] = left
    total = weights.sum(axis=1, keepdims=True)
    wanted = missing[:, np.newaxis] * weights / np.where(total > 0, total, 1.0)
    demand = wanted.sum(axis=0)
    shared += wanted * np.minimum(1.0, left / np.where(demand > 0, demand, 1.0))
  return shared


_NEGLIGIBLE_SHARE = 1e-9  # Smaller shares of a label are rounding errors.


def _round_counts(shared: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Rounds `shared`; keeps the sums of rows (clients) and columns (labels)."""
  counts = np.floor(shared + _NEGLIGIBLE_SHARE).astype(np.int64)
  sizes, stock = (np.rint(shared.sum(axis=k)).astype(int) for k in (1, 0))
  left = stock - counts.sum(axis=0)
  for client in rng.permutation(len(counts)):
    missing = sizes[client] - counts[client].sum()
    # Rounded, so that equal remainders are in the same order on every machine.
    remainders = np.round(shared[client] - counts[client], 9)
    for _ in range(missing):
      label = int(np.argmax(np.where(left > 0, remainders, -np.inf)))
      counts[client, label] += 1
      remainders[label] -= 1
      left[label] -= 1
  return counts


def _fill_small_parts(
  parts: list[list[int]], min_size: int, rng: np.random.Generator
) -> None:
  sizes = np.array([len(part) for part in parts])
  for receiver in np.flatnonzero(sizes < min_size):
    while sizes[receiver] < min_size:
      # There are enough examples, so the largest part has more than min_size.
      donor = int(np.argmax(sizes))
      given = parts[donor].pop(int(rng.integers(sizes[donor])))
      parts[receiver].append(given)
      sizes[donor] -= 1
      sizes[receiver] += 1
