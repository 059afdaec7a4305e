"""Cuts by label: shards, few labels per client, one client per value."""

from typing import Any

import numpy as np

from tasks.cuts import checks, seeding
from tff_fair.declared import FieldError


def label_shards(
  labels: np.ndarray,
  num_clients: int,
  shards_per_client: int,
  seed: seeding.Seed,
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
    FieldError: If there are more shards than examples.
  """
  labels = checks.vector(labels)
  checks.num_parts(num_clients, len(labels), "num_clients")
  most = len(labels) // num_clients
  if not 1 <= shards_per_client <= most:
    raise FieldError(
      "shards_per_client",
      f"expected between 1 and {most}, the number of examples of a client.",
      value=shards_per_client,
    )
  num_shards = num_clients * shards_per_client
  rng = seeding.generator(seed)
  shuffled = rng.permutation(len(labels))
  by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
  shards = np.array_split(by_label, num_shards)
  deal = rng.permutation(num_shards).reshape(num_clients, shards_per_client)
  return [np.concatenate([shards[s] for s in hand]) for hand in deal]


def few_labels(
  labels: np.ndarray,
  num_clients: int,
  labels_per_client: int,
  seed: seeding.Seed,
) -> list[np.ndarray]:
  """Gives each client some labels; the clients of a label share it evenly.

  As FEMNIST-skewed of Li et al., "Fair Resource Allocation in Federated
  Learning" (ICLR 2020), is cut. The examples of a label that no client happens
  to be given are in no part.

  Args:
    labels: Labels of the examples, shape [num_examples].
    num_clients: Number of clients.
    labels_per_client: Number of different labels of a client.
    seed: Seed of the choice of labels and of the order within a label.

  Returns:
    Positions of each client's examples; a part is empty if its labels have
    fewer examples than clients.

  Raises:
    FieldError: If there are fewer labels, or more clients than examples.
  """
  labels = checks.vector(labels)
  checks.num_parts(num_clients, len(labels), "num_clients")
  values = np.unique(labels)
  if not 1 <= labels_per_client <= len(values):
    raise FieldError(
      "labels_per_client",
      f"expected between 1 and the number of labels, {len(values)}.",
      value=labels_per_client,
    )
  rng = seeding.generator(seed)
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
      # Dealt at random: the first pieces are larger by one.
      for holder, piece in zip(rng.permutation(holders), pieces, strict=True):
        parts[holder].append(piece)
  return [np.concatenate(pieces) for pieces in parts]


def in_proportion(
  parts: list[np.ndarray],
  labels: np.ndarray,
  other_labels: np.ndarray,
  seed: seeding.Seed,
) -> list[np.ndarray]:
  """Cuts a second data set in the proportions of labels of a first one's parts.

  It tests the clients of a training set on the labels that they train on, in
  the same proportions.

  Args:
    parts: Positions of each client's examples in the first data set.
    labels: Labels of the first data set.
    other_labels: Labels of the second data set.
    seed: Seed of the order within a label.

  Returns:
    Positions of each client's examples in the second data set. Examples of a
    label that no part of the first one has are left out.
  """
  others: list[list[np.ndarray]] = [[] for _ in parts]
  rng = seeding.generator(seed)
  for value in np.unique(other_labels):
    positions = rng.permutation(np.flatnonzero(other_labels == value))
    counts = [np.count_nonzero(labels[part] == value) for part in parts]
    ends = np.cumsum(counts, dtype=np.int64)
    if ends[-1] > 0:
      # Rounded to the nearest, in whole numbers.
      cuts = (2 * ends[:-1] * len(positions) + ends[-1]) // (2 * ends[-1])
      for other, piece in zip(others, np.split(positions, cuts), strict=True):
        other.append(piece)
  nothing = np.zeros(0, np.int64)
  return [np.concatenate([nothing, *pieces]) for pieces in others]


def by_value(values: np.ndarray) -> tuple[list[Any], list[np.ndarray]]:
  """Makes a client of all examples that have a value in common.

  Args:
    values: Who wrote an example, or its label, by example, shape
      [num_examples].

  Returns:
    The values in order, each once, and the positions of each one's examples.

  Raises:
    ValueError: If there are no examples.
  """
  values = checks.vector(values)
  if len(values) == 0:
    raise ValueError("There are no examples to cut.")
  unique, index, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  order = np.argsort(index, kind="stable")
  return unique.tolist(), np.split(order, np.cumsum(counts)[:-1])
