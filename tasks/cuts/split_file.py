"""Reads and writes files that record the client of each example.

A saved split stays the same if seeds, this code or NumPy change, and can be
shared. The npz file has the number of examples and a fingerprint of their
labels; `load_split` refuses the file if labels differ. A user's own file has
only the client of each example, and optionally "train" or "test".
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files, example_checks, npz, source_files

_ARRAYS = (
  *("num_examples", "labels_sha256", "description", "client_names"),
  *("train_sizes", "train_positions", "test_sizes", "test_positions"),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ClientSplit:
  """Which examples of a data set the clients use for training and testing."""

  client_names: tuple[str, ...]
  train: tuple[np.ndarray, ...]  # Each client's positions, int64[n].
  test: tuple[np.ndarray, ...]
  description: str  # How the data set was divided, in words.
  # Share of the examples that the option `min_size` moved to other clients.
  share_moved: float = 0.0
  # A description of the partition, to follow the word "clients", if the options
  # do not describe it.
  partition_text: str = ""


class ExampleClients(NamedTuple):
  """The client of each example, from a user's own file."""

  # The client of each example, strings or integers, [n]. An example without a
  # client has an empty string or a negative number.
  clients: np.ndarray
  # "train", "test" or an empty string for each example; None if the file has no
  # array `split`.
  halves: np.ndarray | None


def load_clients(path: pathlib.Path) -> ExampleClients | None:
  """Reads a user's file of clients; returns None if `save_split` wrote it."""
  if "client" not in npz.names(path, what="split of clients"):
    return None
  arrays = npz.read(
    path, ["client"], optional=["split"], what="split of clients"
  )
  for name, array in arrays.items():
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
      raise DataError(
        path,
        f"{name} is {array.dtype}{list(array.shape)}, expected texts or "
        "integers, one for each example.",
      )
  clients = _decoded(arrays["client"])
  if "split" not in arrays:
    return ExampleClients(clients, None)
  halves = _decoded(arrays["split"])
  if len(halves) != len(clients):
    raise DataError(
      path, f"split has {len(halves):,} examples, client has {len(clients):,}."
    )
  wrong = ~np.isin(halves, ("train", "test", ""))
  if wrong.any():
    position = int(wrong.argmax())
    raise DataError(
      path,
      f"split of example {position} (counted from 0) must be train, test or "
      f"empty, found {halves[position]!s}.",
    )
  return ExampleClients(clients, halves)


def _decoded(array: np.ndarray) -> np.ndarray:
  if array.dtype.kind != "S":
    return array
  return np.array([*map(example_checks.as_text, array.tolist())], np.str_)


def save_split(
  path: pathlib.Path, split: ClientSplit, labels: np.ndarray
) -> None:
  """Writes a split, and a fingerprint of `labels`, into a new file."""
  source_files.note(path)  # A resumed run reads this file.
  with data_files.replacement(path) as staged, staged.open("wb") as file:
    np.savez_compressed(
      file,
      num_examples=np.int64(len(labels)),
      labels_sha256=np.array(_fingerprint(labels)),
      description=np.array(split.description),
      share_moved=np.float64(split.share_moved),
      client_names=np.array(split.client_names, np.str_),
      train_sizes=_sizes(split.train),
      train_positions=np.concatenate(split.train).astype(np.int64),
      test_sizes=_sizes(split.test),
      test_positions=np.concatenate(split.test).astype(np.int64),
    )


def load_split(path: pathlib.Path, labels: np.ndarray) -> ClientSplit:
  """Reads a file that `save_split` wrote; raises an error if labels differ."""
  arrays = npz.read(
    path, _ARRAYS, optional=["share_moved"], what="split of clients"
  )
  with data_files.reporting_damage(path, "is not a split of clients"):
    found = int(arrays["num_examples"]), str(arrays["labels_sha256"])
    split = ClientSplit(
      client_names=tuple(map(str, arrays["client_names"].tolist())),
      train=_parts(arrays, "train"),
      test=_parts(arrays, "test"),
      description=str(arrays["description"]),
      share_moved=float(arrays.get("share_moved", 0.0)),
    )
  if found[0] != len(labels):
    raise DataError(
      path,
      f"is a split of {found[0]:,} examples; the data has {len(labels):,}.",
    )
  if found[1] != _fingerprint(labels):
    raise DataError(
      path,
      "is a split of other data: the fingerprint of its labels is "
      f"{found[1][:12]}..., that of the data {_fingerprint(labels)[:12]}....",
    )
  _check_positions(path, split, len(labels))
  return split


def _check_positions(
  path: pathlib.Path, split: ClientSplit, num_examples: int
) -> None:
  if not len(split.client_names) == len(split.train) == len(split.test):
    raise DataError(
      path,
      f"has {len(split.client_names)} client names, {len(split.train)} train "
      f"parts and {len(split.test)} test parts.",
    )
  positions = np.concatenate([*split.train, *split.test, np.zeros(0, np.int64)])
  if len(positions) == 0:
    raise DataError(path, "has no clients with examples.")
  if positions.min() < 0 or positions.max() >= num_examples:
    raise DataError(
      path,
      f"positions range from {positions.min()} to {positions.max()}, expected "
      f"0 to {num_examples - 1}.",
    )
  ordered = np.sort(positions)
  twice = ordered[:-1][ordered[:-1] == ordered[1:]]
  if len(twice) > 0:
    raise DataError(path, f"has example {twice[0]} more than once.")


def _fingerprint(labels: np.ndarray) -> str:
  # Converts to int64, since readers may return other types of integers.
  return hashlib.sha256(np.asarray(labels).astype("<i8").tobytes()).hexdigest()


def _sizes(parts: Sequence[np.ndarray]) -> np.ndarray:
  return np.array([len(part) for part in parts], np.int64)


def _parts(
  arrays: Mapping[str, np.ndarray], half: str
) -> tuple[np.ndarray, ...]:
  sizes, positions = arrays[f"{half}_sizes"], arrays[f"{half}_positions"]
  for name, array in [("sizes", sizes), ("positions", positions)]:
    if array.ndim != 1 or array.dtype != np.int64:
      raise ValueError(
        f"{half}_{name} is {array.dtype}{list(array.shape)}, expected int64[n]"
      )
  if (sizes < 0).any() or sizes.sum() != len(positions):
    raise ValueError(
      f"{half}_sizes do not add up to {len(positions)} {half}_positions"
    )
  return tuple(np.split(positions, np.cumsum(sizes)[:-1])) if len(sizes) else ()
