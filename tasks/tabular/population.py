"""Assigns rows to clients, and splits clients' rows into train and test."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tasks import cuts, notices
from tasks.data_error import DataError
from tff_fair import spelling


@dataclasses.dataclass(frozen=True, eq=False)
class ClientRows:
  """All clients' training rows, or all their test rows, client by client."""

  # Positions in the table, int64[rows]; each client's positions are contiguous
  # and in ascending order.
  rows: np.ndarray
  sizes: np.ndarray  # The number of rows of each client, int64[clients].

  @functools.cached_property
  def _ends(self) -> np.ndarray:
    return np.cumsum(self.sizes)

  def of_client(self, client_id: int) -> np.ndarray:
    """Returns the rows of a client, int64[n]."""
    end = int(self._ends[client_id])
    return self.rows[end - int(self.sizes[client_id]) : end]

  @property
  def parts(self) -> list[np.ndarray]:
    """The rows of each client."""
    return np.split(self.rows, self._ends[:-1])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Population:
  """The clients of a table."""

  names: Sequence[str]  # Names of the clients.
  train: ClientRows  # Rows that the clients train on.
  test: ClientRows  # Rows that the clients are tested on.
  # The number of clients without training or test rows, or with too few rows.
  num_left_out: int


def choose_test_blocks(
  clients: np.ndarray,
  blocks: np.ndarray,
  fraction: float,
  seed: int,
  classes: np.ndarray | None,
) -> np.ndarray:
  """Chooses test rows, bool[rows]: all rows of a block or none of them.

  Rows with the same value in `blocks` are a block. In the draw, it counts as
  one example of the rarest class among its rows, at the client of its first
  row.
  """
  _, first, block_of_row = np.unique(
    blocks, return_index=True, return_inverse=True
  )
  of_blocks = None
  if classes is not None:
    counts = np.bincount(classes)
    # Classes by frequency; a block has the rarest class among its rows.
    rank = np.argsort(np.argsort(counts, kind="stable"), kind="stable")
    of_blocks = np.full(len(first), len(counts))
    np.minimum.at(of_blocks, block_of_row, rank[classes])
  is_test = choose_test_rows(clients[first], fraction, seed, of_blocks)
  return is_test[block_of_row]


def choose_test_rows(
  clients: np.ndarray, fraction: float, seed: int, classes: np.ndarray | None
) -> np.ndarray:
  """Chooses a share of each client's rows for testing at random, bool[rows].

  Of n rows of a class, it chooses n times the share, rounded up or down. If a
  client has several rows, at least one is for training and one for testing; a
  single row is for training.
  """
  generator = cuts.generator(seed)
  shuffled = generator.permutation(len(clients))
  # The sort is stable, so a client's rows of a class stay in random order.
  keys = [clients] if classes is None else [classes, clients]
  order = shuffled[np.lexsort([key[shuffled] for key in keys])]
  sizes = np.bincount(clients)
  num_test = cuts.num_test_examples(sizes, fraction)
  rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
  # Evenly spaced rows, from a random start: a sample stratified by class.
  start = generator.integers(np.maximum(sizes, 1))
  size, step, first = (np.repeat(n, sizes) for n in (sizes, num_test, start))
  is_test = np.empty(len(order), bool)
  is_test[order] = (rank * step + first) % size + step >= size
  return is_test


def divide(
  clients: np.ndarray,
  names: Sequence[str],
  is_test: np.ndarray,
  *,
  min_examples: int,
  num_clients: int | None,
  seed: int,
  source: str,
  classes: np.ndarray | None = None,
) -> Population:
  """Assigns rows to clients; `clients`, int[rows], are indices of `names`.

  With `classes`, int[rows], some test rows become training rows, and vice
  versa, so that each class has a training row.
  """
  if len(names) < 2:
    raise DataError(
      source,
      f"there is only one client, {', '.join(names)!r}; a federation has two "
      "or more.",
    )
  sizes = [
    np.bincount(clients[half], minlength=len(names))
    for half in (~is_test, is_test)
  ]
  fits = (np.minimum(*sizes) > 0) & (np.add(*sizes) >= min_examples)
  fitting = np.flatnonzero(fits)
  if left := [names[k] for k in np.flatnonzero(~fits)]:
    notices.notify(
      f"{source}: clients with too few rows are left out: "
      f"{spelling.join_names(left, 5)}."
    )
  if len(fitting) < 2:
    raise DataError(
      source,
      f"{len(fitting)} of {len(names):,} clients have both train and test "
      f"rows, at least {max(min_examples, 2)} together; a federation has two "
      "or more such clients.",
    )
  chosen = cuts.random_subset(
    fitting, num_clients, seed, what="clients with enough rows"
  )
  client_ids = np.full(len(names), -1, np.int32)
  client_ids[chosen] = np.arange(len(chosen))
  ids = client_ids[clients]
  if classes is not None:
    is_test = _with_all_classes_in_training(ids, is_test, classes)
  return Population(
    names=tuple(names[k] for k in chosen),
    train=_rows_by_client(ids, ~is_test, len(chosen)),
    test=_rows_by_client(ids, is_test, len(chosen)),
    num_left_out=len(names) - len(fitting),
  )


def _with_all_classes_in_training(
  ids: np.ndarray, is_test: np.ndarray, classes: np.ndarray
) -> np.ndarray:
  """Returns `is_test`, changed so that each class has a training row.

  In exchange, another row of the same client becomes a test row, if possible.
  `ids`, int[rows], are the rows' client ids; -1 without a client.
  """
  is_test = is_test.copy()
  num_train, num_test = (
    np.bincount(classes[half & (ids >= 0)], minlength=classes.max() + 1)
    for half in (~is_test, is_test)
  )
  for lost in np.flatnonzero((num_train == 0) & (num_test > 0)):
    for row in np.flatnonzero((classes == lost) & (ids >= 0)):
      is_mine = ids == ids[row]
      # Only a class with another training row may give one up.
      others = is_mine & ~is_test & (num_train[classes] > 1)
      if others.any():
        other = int(others.argmax())
        is_test[other] = True
        num_train[classes[other]] -= 1
      elif (is_mine & is_test).sum() == 1:
        continue  # The client would have no test row left.
      is_test[row] = False
      num_train[lost] += 1
      break
  return is_test


def _rows_by_client(
  ids: np.ndarray, half: np.ndarray, num_clients: int
) -> ClientRows:
  rows = np.flatnonzero(half & (ids >= 0))
  rows = rows[np.argsort(ids[rows], kind="stable")]
  return ClientRows(rows, np.bincount(ids[rows], minlength=num_clients))
