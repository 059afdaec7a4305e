"""Describes data files for `prepare_data`: clients, examples, labels."""

import collections
import itertools
import pathlib
import sqlite3
from collections.abc import Callable, Iterator

import numpy as np

from tasks.data_error import DataError
from tasks.formats import (
  cifar,
  data_files,
  example_proto,
  leaf_json,
  mnist,
  sqlite_file,
)

# Names of labels in TFF's files, and in files converted from LEAF's JSON.
_LABELS = ("label", "y")
_MAX_LABELS = 100
_JSON_BEGINNING = 1 << 20  # Bytes to search for the keys of LEAF.

# The beginning of the description of an unusable file.
UNUSABLE = "CANNOT BE USED"


def describe(directory: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields each data file under a directory with its description."""
  if not directory.is_dir():
    raise DataError(directory, "there is no such directory.")
  for path in sorted(directory.rglob("*")):
    if any(part.startswith(".") for part in path.relative_to(directory).parts):
      continue  # A temporary file, perhaps left by a power cut.
    reader = _reader(path) if path.is_file() else None
    if reader is not None:
      try:
        yield path, reader(path)
      except DataError as error:
        yield path, f"{UNUSABLE}: {error}"


def _reader(path: pathlib.Path) -> Callable[[pathlib.Path], str] | None:
  name = path.name.removesuffix(".gz")
  if path.suffix == ".sqlite":
    return describe_client_data
  if name.startswith(("train", "t10k", "qmnist")) and "idx" in name:
    return _idx
  if cifar.kind_of(path):
    return _cifar
  if path.suffix == ".json" and _looks_like_leaf(path):
    return _leaf
  return None


def _looks_like_leaf(path: pathlib.Path) -> bool:
  # JSON files may also be descriptions of other data sets.
  try:
    with path.open("rb") as file:
      beginning = file.read(_JSON_BEGINNING)
  except OSError:
    return True  # The reader reports the error.
  return any(name in beginning for name in (b'"users"', b'"user_data"'))


def describe_client_data(path: pathlib.Path) -> str:
  """Describes a file of TFF's data sets, with a line for each split."""
  sqlite_file.check(path)
  sqlite_file.check_pages(path)
  with sqlite_file.connect(path) as connection:
    splits = sqlite_file.split_names(connection)
    lines = ["client data of TFF" if splits else "no clients"]
    for split in splits:
      with data_files.reporting_damage(f"{path}, split {split}"):
        lines.append(_client_data_split(connection, split))
    return "\n".join(lines)


def _client_data_split(connection: sqlite3.Connection, split: str) -> str:
  # Reads only numbers, since clients' names may not fit in memory.
  sizes = np.fromiter(
    (
      size
      for (size,) in connection.execute(
        "SELECT CAST(TOTAL(num_examples) AS INTEGER) FROM client_metadata "
        "WHERE split_name = ? GROUP BY client_id",
        [split],
      )
    ),
    np.int64,
  )
  examples = (
    example_proto.parse(serialized)
    for (serialized,) in connection.execute(
      "SELECT serialized_example_proto FROM examples WHERE split_name = ?",
      [split],
    )
  )
  return f"split {split}: {_sizes(sizes)}{_labels_of_examples(examples)}"


def _labels_of_examples(
  examples: Iterator[dict[str, list[bytes] | np.ndarray]],
) -> str:
  first = next(examples, None)
  if first is None:
    return ""
  features = f"; features {', '.join(sorted(first))}"
  name = next(
    (
      label
      for label in _LABELS
      if isinstance(first.get(label), np.ndarray)
      and np.issubdtype(first[label].dtype, np.integer)  # type: ignore[union-attr]
    ),
    None,
  )
  if name is None:
    return features
  counts: collections.Counter[int] = collections.Counter()
  for example in itertools.chain([first], examples):
    counts.update(np.asarray(example.get(name, ())).tolist())
  return f"{features}; {_histogram(counts)}"


def _idx(path: pathlib.Path) -> str:
  array = mnist.read_idx(path)
  shape = " x ".join(f"{size:,}" for size in array.shape)
  text = f"idx: {shape} of {array.dtype.name}"
  if array.ndim == 1:
    text += f"; {_histogram(collections.Counter(array.tolist()))}"
  return text


def _cifar(path: pathlib.Path) -> str:
  pixels, labels = cifar.read_batch(path)
  counts = collections.Counter(labels["label"].tolist())
  return f"CIFAR batch: {len(pixels):,} images; {_histogram(counts)}"


def _leaf(path: pathlib.Path) -> str:
  sizes = []
  counts: collections.Counter[object] = collections.Counter()
  for _, data in leaf_json.read_users(path):
    sizes.append(len(data["y"]))
    counts.update(y for y in data["y"] if isinstance(y, int | float | str))
  return f"LEAF JSON: {_sizes(np.array(sizes))}; {_histogram(counts)}"


def _sizes(sizes: np.ndarray) -> str:
  if not sizes.size:
    return "no clients"
  return (
    f"{sizes.size:,} clients, {sizes.sum():,} examples, per client "
    f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"
  )


def _histogram(counts: collections.Counter) -> str:
  if not counts:
    return "no labels"
  if len(counts) > _MAX_LABELS:
    return f"{len(counts):,} different labels"
  labels = sorted(counts, key=lambda label: (isinstance(label, str), label))
  return "labels " + ", ".join(f"{_name(k)}: {counts[k]:,}" for k in labels)


def _name(label: object) -> str:
  return f"{label:g}" if isinstance(label, float) else str(label)
