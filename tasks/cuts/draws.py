"""Draws clients and test examples at random, and names artificial clients."""

from collections.abc import Callable, Sequence

import numpy as np

from tasks.task import Arrays, RawArrays, Split
from tff_fair.declared import FieldError

Seed = int | Sequence[int]
_ReadColumn = Callable[[int], np.ndarray]


def generator(seed: Seed) -> np.random.Generator:
  """Returns a PCG64 generator, since NumPy's default algorithm may change."""
  return np.random.Generator(np.random.PCG64(seed))


def client_names(count: int) -> list[str]:
  """Returns names for artificial clients, all of the same length."""
  width = len(str(count - 1))
  return [f"client_{k:0{width}}" for k in range(count)]


def random_subset(
  clients: np.ndarray, num_clients: int | None, seed: Seed, *, what: str
) -> np.ndarray:
  """Returns `num_clients` random clients in ascending order; None returns all.

  In errors, `what` describes the clients.
  """
  if num_clients is None:
    return clients
  if num_clients > len(clients):
    raise FieldError(
      "num_clients",
      f"expected at most {len(clients)}, the number of {what}.",
      value=num_clients,
    )
  return np.sort(generator(seed).choice(clients, num_clients, replace=False))


def num_test_examples(sizes: np.ndarray, test_fraction: float) -> np.ndarray:
  """Returns each client's number of test examples, int64[clients].

  `sizes`, int[clients], are the clients' numbers of examples. A client with
  several examples keeps at least one for testing and one for training; a single
  example is for training.
  """
  num_test = np.rint(sizes * test_fraction).astype(np.int64)
  return np.minimum(np.maximum(num_test, 1), np.maximum(sizes - 1, 0))


def train_test_split(
  indices: np.ndarray,
  test_fraction: float,
  seed: Seed,
  *,
  unused_fraction: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
  """Splits `indices` at random; returns the train and the test indices.

  A share `unused_fraction` is in neither part. With two or more indices,
  neither part is empty.
  """
  num_test = int(num_test_examples(np.array(len(indices)), test_fraction))
  num_unused = round(len(indices) * unused_fraction)
  num_train = max(len(indices) - num_test - num_unused, 1)
  shuffled = generator(seed).permutation(indices)
  return shuffled[num_test : num_test + num_train], shuffled[:num_test]


def local_split(
  whole: Split, test_fraction: float, seed: int
) -> tuple[Split, Split]:
  """Splits each client's examples at random into train and test, on demand."""
  sizes = whole.num_examples
  num_test = num_test_examples(sizes, test_fraction)

  def half(side: int, num_examples: np.ndarray) -> Split:
    def rows(client_id: int) -> np.ndarray:
      every = np.arange(sizes[client_id])
      return train_test_split(every, test_fraction, (seed, client_id))[side]

    return with_rows(whole, rows, num_examples)

  return half(0, sizes - num_test), half(1, num_test)


def with_rows(
  whole: Split, rows: Callable[[int], np.ndarray], num_examples: np.ndarray
) -> Split:
  """Returns a split with only the examples `rows(client_id)` of each client."""

  def load(client_id: int) -> Arrays:
    x, y = whole.load(client_id)
    chosen = rows(client_id)
    return x[chosen], y[chosen]

  def raw_rows(client_id: int) -> RawArrays:
    assert whole.raw is not None
    columns, y = whole.raw(client_id)
    chosen = rows(client_id)
    return {name: column[chosen] for name, column in columns.items()}, y[chosen]

  def select(read: _ReadColumn | None) -> _ReadColumn | None:
    return read and (lambda client_id: read(client_id)[rows(client_id)])

  return Split(
    num_examples=num_examples,
    load=load,
    raw=whole.raw and raw_rows,
    true_labels=select(whole.true_labels),
    groups=select(whole.groups),
    noise_levels=whole.noise_levels,
  )
