"""Gives the rows of a table to clients, and cuts each client's in two."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tasks import cuts
from tasks.data_error import DataError


@dataclasses.dataclass(frozen=True, eq=False)
class ClientRows:
  """Rows of one half, in the order of clients.

  Attributes:
    rows: Positions in the table, int64[rows]; those of a client lie beside each
      other, in ascending order.
    sizes: Number of rows of each client, int64[clients].
  """

  rows: np.ndarray
  sizes: np.ndarray

  @functools.cached_property
  def _ends(self) -> np.ndarray:
    return np.cumsum(self.sizes)

  def of(self, client_id: int) -> np.ndarray:
    """Returns the rows of a client, int64[n]."""
    end = int(self._ends[client_id])
    return self.rows[end - int(self.sizes[client_id]) : end]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Population:
  """The clients of a table.

  Attributes:
    names: Names of the clients.
    train: Rows that they train on.
    test: Rows that they are tested on.
    num_left_out: Number of clients without one of these, or with too few rows.
  """

  names: Sequence[str]
  train: ClientRows
  test: ClientRows
  num_left_out: int


def test_share(clients: np.ndarray, fraction: float, seed: int) -> np.ndarray:
  """Chooses a share of each client's rows at random.

  Args:
    clients: Client of each row, int[rows], at least 0.
    fraction: Share of the rows, between 0 and 1.
    seed: Seed of the choice.

  Returns:
    Whether a row is for testing, bool[rows]. Of two rows and more, a client has
    at least one on either side; a single row is for training.
  """
  shuffled = cuts.generator(seed).permutation(len(clients))
  # Stable: a client's rows stay in random order.
  order = shuffled[np.argsort(clients[shuffled], kind="stable")]
  sizes = np.bincount(clients)
  rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
  is_test = np.empty(len(order), bool)
  num_test = cuts.num_test_examples(sizes, fraction)
  is_test[order] = rank < np.repeat(num_test, sizes)
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
) -> Population:
  """Gives rows to clients.

  Args:
    clients: Client of each row, int[rows], a position in `names`.
    names: Names of all clients.
    is_test: Whether a row is for testing, bool[rows].
    min_examples: Clients with fewer rows, train and test together, are left
      out.
    num_clients: Number of clients to choose at random; None takes all.
    seed: Seed of the choice.
    source: The file and what names its clients, for errors.

  Raises:
    DataError: If fewer than two clients can train and be tested.
    ValueError: If there are fewer clients than asked for.
  """
  if len(names) < 2:
    raise DataError(
      f"{source}: there is one client only, {', '.join(names)!r}; a federation "
      "has two or more."
    )
  sizes = [
    np.bincount(clients[half], minlength=len(names))
    for half in (~is_test, is_test)
  ]
  fits = (np.minimum(*sizes) > 0) & (np.add(*sizes) >= min_examples)
  kept = np.flatnonzero(fits)
  if len(kept) < 2:
    raise DataError(
      f"{source}: {len(kept)} of {len(names):,} clients have rows to train and "
      f"to be tested on, {max(min_examples, 2)} together; a federation has two "
      "such clients or more."
    )
  chosen = kept[
    cuts.random_subset(
      len(kept), num_clients, seed, what="clients with enough rows"
    )
  ]
  client_ids = np.full(len(names), -1, np.int32)
  client_ids[chosen] = np.arange(len(chosen))
  ids = client_ids[clients]
  return Population(
    names=tuple(names[k] for k in chosen),
    train=_rows_by_client(ids, ~is_test, len(chosen)),
    test=_rows_by_client(ids, is_test, len(chosen)),
    num_left_out=len(names) - len(kept),
  )


def _rows_by_client(
  ids: np.ndarray, half: np.ndarray, num_clients: int
) -> ClientRows:
  rows = np.flatnonzero(half & (ids >= 0))
  rows = rows[np.argsort(ids[rows], kind="stable")]
  return ClientRows(rows, np.bincount(ids[rows], minlength=num_clients))
