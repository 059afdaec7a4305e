"""Writes SQLite files in the format of `tff.simulation.datasets`.

Examples may come in any order. A temporary SQLite file next to the output
groups them by client, so that memory use does not grow with the data.
"""

import collections
import contextlib
import dataclasses
import hashlib
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tasks import cuts
from tasks.data_error import DataError
from tasks.formats import data_files, sqlite_file

# Maps a client's name and number of examples to a bool for each example, which
# is true for test examples.
TestChoice = Callable[[str, int], Iterable[bool]]

_TABLES = """
  CREATE TABLE examples (
    split_name TEXT NOT NULL,
    client_id TEXT NOT NULL,
    serialized_example_proto BLOB NOT NULL
  );
  CREATE TABLE client_metadata (
    client_id TEXT NOT NULL,
    split_name TEXT NOT NULL,
    num_examples INTEGER NOT NULL
  );
"""
_INDEX = """
  CREATE INDEX idx_examples_client_id_split
  ON examples (split_name, client_id);
"""


class Example(NamedTuple):
  """A client's example, and the split that it belongs to."""

  client: str  # The client's name.
  serialized: bytes  # A serialized `tf.train.Example`.
  split: str | None = None  # None if `SplitSettings` determines it.


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitSettings:
  """How to split examples that have no split, and which clients to keep."""

  # Chooses test examples for a client that has at least two examples.
  choose_test: TestChoice
  train: str = "train"  # Name of the split of training examples.
  test: str = "test"  # Name of the split of test examples.
  min_examples: int = 1  # Clients with fewer examples are dropped.
  # Splits that must not be empty, because TFF's loaders would fail.
  required: tuple[str, ...] = ()


class DroppedCounts(NamedTuple):
  """How many clients were dropped, and how many examples they had."""

  clients: int
  examples: int


def write(
  path: pathlib.Path,
  examples: Iterable[Example],
  settings: SplitSettings,
  *,
  overwrite: bool = False,
) -> DroppedCounts:
  """Atomically writes a file that TFF's loaders can read.

  Returns how many clients were dropped, and how many examples they had.
  """
  with data_files.replacement(path, overwrite=overwrite) as staged:
    try:
      return _write(path, staged, examples, settings)
    except sqlite3.Error as error:
      raise DataError(path, f"cannot be written: {error}.") from error


def _write(
  path: pathlib.Path,
  staged: pathlib.Path,
  examples: Iterable[Example],
  settings: SplitSettings,
) -> DroppedCounts:
  with contextlib.closing(sqlite3.connect(staged)) as connection:
    # Neither database needs a journal: an incomplete file is deleted.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(_TABLES)
    unsorted = str(staged.with_name("unsorted"))
    connection.execute("ATTACH ? AS unsorted", [unsorted])
    connection.execute("PRAGMA unsorted.journal_mode = OFF")
    connection.execute("PRAGMA unsorted.synchronous = OFF")
    connection.execute(
      "CREATE TABLE unsorted.arrived (client TEXT, split TEXT, example BLOB)"
    )
    connection.executemany(
      "INSERT INTO arrived VALUES (?, ?, ?)",
      _rows(path, examples),
    )
    connection.execute(
      "CREATE INDEX unsorted.arrived_by_client ON arrived (client)"
    )
    dropped = _sort(connection, settings)
    _check_splits(path, connection, dropped, settings)
    connection.executescript(_INDEX)
    connection.commit()
    connection.execute("DETACH unsorted")
  return dropped


def _rows(
  path: pathlib.Path, examples: Iterable[Example]
) -> Iterator[tuple[str, str | None, bytes]]:
  """Yields the client, the split and the bytes of each example."""
  names: dict[str, str] = {}
  for name, serialized, split in examples:
    # TFF's loader puts names in single quotes into its query, unescaped.
    client = name.replace("'", "’")
    if "’" in client and (other := names.setdefault(client, name)) != name:
      raise DataError(
        path,
        f"clients {other!r} and {name!r} would both be {client!r}, since TFF's "
        "loader cannot read straight apostrophes; rename one.",
      )
    yield client, split, serialized


def _sort(
  connection: sqlite3.Connection, settings: SplitSettings
) -> DroppedCounts:
  """Copies the examples in order of clients; drops clients with too few."""
  clients = connection.execute(
    "SELECT client, COUNT(*), COUNT(*) - COUNT(split) FROM arrived "
    "GROUP BY client ORDER BY client"
  )
  num_clients = num_examples = 0
  for client, count, num_to_cut in clients:
    if count < settings.min_examples or num_to_cut == 1:
      num_clients += 1
      num_examples += count
    else:
      _copy(connection, settings, client, num_to_cut)
  return DroppedCounts(num_clients, num_examples)


def _copy(
  connection: sqlite3.Connection,
  settings: SplitSettings,
  client: str,
  num_to_cut: int,
) -> None:
  rows = connection.execute(
    "SELECT split, rowid FROM arrived WHERE client = ? ORDER BY rowid", [client]
  )
  is_test = iter(settings.choose_test(client, num_to_cut) if num_to_cut else ())
  # Sorts only row numbers, since a client's examples may not fit in memory.
  chosen = sorted(
    (split or (settings.test if next(is_test) else settings.train), rowid)
    for split, rowid in rows
  )
  connection.executemany(
    "INSERT INTO examples SELECT ?, client, example FROM arrived "
    "WHERE rowid = ?",
    chosen,
  )
  connection.executemany(
    "INSERT INTO client_metadata VALUES (?, ?, ?)",
    [
      (client, split, count)
      for split, count in collections.Counter(s for s, _ in chosen).items()
    ],
  )


def _check_splits(
  path: pathlib.Path,
  connection: sqlite3.Connection,
  dropped: DroppedCounts,
  settings: SplitSettings,
) -> None:
  found = sqlite_file.split_names(connection)
  if not found:
    raise DataError(
      path, f"no client is left to write: {_dropped_text(dropped, settings)}."
    )
  missing = [split for split in settings.required if split not in found]
  if missing:
    raise DataError(
      path,
      f"no client has an example in the split {', '.join(missing)}, without "
      "which TFF's loader fails; found examples in "
      f"{', '.join(found)}. Split in another way (--split, for posts also "
      "--test_date and --heldout_every).",
    )


def _dropped_text(dropped: DroppedCounts, settings: SplitSettings) -> str:
  if not dropped.clients:
    return "there are no examples"
  return (
    f"{dropped.clients:,} clients with {dropped.examples:,} examples were "
    f"dropped, because each has fewer than {settings.min_examples} examples "
    "(--min_examples) or only one to cut into train and test"
  )


def random_share(test_fraction: float, seed: int) -> TestChoice:
  """Returns a `TestChoice` of random examples: at least one, and not all."""

  def choose(client: str, num_examples: int) -> np.ndarray:
    digest = hashlib.sha256(client.encode()).digest()
    _, test = cuts.train_test_split(
      np.arange(num_examples),
      test_fraction,
      [seed, int.from_bytes(digest[:8], "big")],
    )
    return np.isin(np.arange(num_examples), test)

  return choose


def last_share(test_fraction: float) -> TestChoice:
  """Returns a `TestChoice` of the last examples: at least one, and not all."""

  def choose(client: str, num_examples: int) -> np.ndarray:
    del client
    num_test = cuts.num_test_examples(np.array(num_examples), test_fraction)
    return np.arange(num_examples) >= num_examples - num_test

  return choose
