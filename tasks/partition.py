"""Cuts a data set into clients, and a client into train and test.

Pure functions of their arguments: the same seed gives the same cut on every
machine. All return positions (int64) that cover every example exactly once.
"""

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int]

# Beyond these NumPy's sampler does not end or overflows; well inside them a
# class already sits at one client, or spreads evenly over all.
CONCENTRATION_RANGE = (1e-6, 1e9)


def generator(seed: Seed) -> np.random.Generator:
  """Returns a generator whose algorithm is named, not NumPy's default."""
  return np.random.Generator(np.random.PCG64(seed))


def iid(num_examples: int, num_clients: int, seed: Seed) -> list[np.ndarray]:
  """Deals the examples out at random, in equal numbers up to one.

  Args:
    num_examples: Number of examples to deal out.
    num_clients: Number of clients, at most one per example.
    seed: Seed of the shuffle.

  Returns:
    Positions of each client's examples.

  Raises:
    ValueError: If there are more clients than examples.
  """
  _check_parts(num_clients, num_examples, "num_clients")
  return np.array_split(generator(seed).permutation(num_examples), num_clients)


def label_shards(
  labels: np.ndarray, num_clients: int, shards_per_client: int, seed: Seed
) -> list[np.ndarray]:
  """Sorts by label, cuts into equal shards and deals the shards at random.

  The pathological non-IID cut of McMahan et al., "Communication-Efficient
  Learning of Deep Networks from Decentralized Data" (AISTATS 2017), Section 3.

  Args:
    labels: Labels of the examples, shape [num_examples].
    num_clients: Number of clients.
    shards_per_client: Shards of each client: roughly its number of labels.
    seed: Seed of the order within a label and of the deal.

  Returns:
    Positions of each client's examples.

  Raises:
    ValueError: If there are more shards than examples.
  """
  labels = _check_labels(labels)
  _check_parts(num_clients, len(labels), "num_clients")
  if shards_per_client < 1:
    raise ValueError(
      f"shards_per_client must be at least 1, found {shards_per_client}."
    )
  num_shards = num_clients * shards_per_client
  _check_parts(num_shards, len(labels), "num_clients * shards_per_client")
  rng = generator(seed)
  shuffled = rng.permutation(len(labels))
  by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
  shards = np.array_split(by_label, num_shards)
  deal = rng.permutation(num_shards).reshape(num_clients, shards_per_client)
  return [np.concatenate([shards[s] for s in hand]) for hand in deal]


def dirichlet(
  labels: np.ndarray,
  num_clients: int,
  concentration: float,
  seed: Seed,
  *,
  min_size: int = 1,
) -> list[np.ndarray]:
  """Spreads each label over the clients in Dirichlet-distributed proportions.

  As in Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural
  Networks" (ICML 2019), Section 4: for each label, p ~ Dir(concentration · 1)
  over the clients. Where the usual code draws again until no client is smaller
  than min_size, which for small concentrations never ends, here each client
  that came out too small takes random examples of the largest one.

  Args:
    labels: Labels of the examples, shape [num_examples].
    num_clients: Number of clients.
    concentration: From 1e-6 (each label at one client) to 1e9 (IID).
    seed: Seed of proportions, of the order within a label, and of the filling.
    min_size: Least number of examples of a client.

  Returns:
    Positions of each client's examples.

  Raises:
    ValueError: If the examples do not suffice or an argument is out of range.
  """
  labels = _check_labels(labels)
  _check_parts(num_clients, len(labels), "num_clients")
  least, most = CONCENTRATION_RANGE
  if not least <= concentration <= most:
    raise ValueError(
      f"concentration must be between {least:g} and {most:g}, "
      f"found {concentration}."
    )
  if not 0 <= min_size * num_clients <= len(labels):
    raise ValueError(
      f"{num_clients} clients with min_size {min_size} need "
      f"{min_size * num_clients} examples, found {len(labels)}."
    )
  rng = generator(seed)
  parts: list[list[int]] = [[] for _ in range(num_clients)]
  for label in np.unique(labels):
    positions = rng.permutation(np.flatnonzero(labels == label))
    shares = rng.dirichlet(np.full(num_clients, concentration))
    cuts = np.rint(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
    for part, piece in zip(parts, np.split(positions, cuts), strict=True):
      part.extend(piece)
  _fill_small_parts(parts, min_size, rng)
  return [np.asarray(part, np.int64) for part in parts]


def train_test_split(
  indices: np.ndarray, test_fraction: float, seed: Seed
) -> tuple[np.ndarray, np.ndarray]:
  """Splits one client's examples at random; neither side is ever empty.

  Args:
    indices: Positions of the client's examples, at least two.
    test_fraction: Share of the test side, between 0 and 1.
    seed: Seed of the shuffle.

  Returns:
    Positions of the training and of the test examples, shuffled.

  Raises:
    ValueError: If there are fewer than two examples, or the fraction is not
      between 0 and 1.
  """
  if not 0 < test_fraction < 1:
    raise ValueError(
      f"test_fraction must be between 0 and 1, found {test_fraction}."
    )
  if len(indices) < 2:
    raise ValueError(
      f"A train and a test example need 2 examples, found {len(indices)}."
    )
  num_test = round(len(indices) * test_fraction)
  num_test = min(max(num_test, 1), len(indices) - 1)
  shuffled = generator(seed).permutation(indices)
  return shuffled[num_test:], shuffled[:num_test]


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


def _check_labels(labels: np.ndarray) -> np.ndarray:
  labels = np.asarray(labels)
  if labels.ndim != 1:
    raise ValueError(f"labels must be a vector, found shape {labels.shape}.")
  return labels


def _check_parts(num_parts: int, num_examples: int, name: str) -> None:
  if not 1 <= num_parts <= num_examples:
    raise ValueError(
      f"{name} must be between 1 and the number of examples, "
      f"{num_examples}; found {num_parts}."
    )
