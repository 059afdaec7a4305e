"""Converts LEAF's JSON, with its users as clients.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). The features
keep LEAF's names, x and y. Numbers become floats, but a whole number as y
becomes an integer; strings remain strings.
"""

import collections
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tasks.conversions.client_data_writer import Example
from tasks.data_error import DataError
from tasks.formats import data_files, example_proto, leaf_json

FILENAME = "leaf.sqlite"

Files = Mapping[str | None, Sequence[pathlib.Path]]


def files(path: pathlib.Path) -> Files:
  """Returns LEAF's files by "train" and "test" or, if not split, by None."""
  if path.is_file():
    return {None: [path]}
  halves: Files = {
    half: sorted((path / half).glob("*.json")) for half in ("train", "test")
  }
  missing = [half for half, paths in halves.items() if not paths]
  if len(missing) == 1:
    raise DataError(path / str(missing[0]), "there is no JSON file.")
  if not missing:
    return halves
  found = sorted(path.glob("*.json"))
  if not found:
    raise DataError(
      path,
      "expected a JSON file of LEAF, a folder of such files, or one with the "
      "folders train and test.",
    )
  return {None: found}


def examples(
  halves: Files,
  left_out: collections.Counter[str],
  *,
  keep_splits: bool,
  on_read: data_files.OnRead = data_files.ignore,
) -> Iterator[Example]:
  """Yields the users' examples; holds only one file in memory."""
  for half, paths in halves.items():
    for place, user, data in leaf_json.read_set(paths, on_read):
      if not data["y"]:
        left_out["user without examples"] += 1
      for number, (x, y) in enumerate(zip(data["x"], data["y"], strict=True)):
        at = f"{place}, example {number}"
        features = {"x": _value(at, "x", x), "y": _value(at, "y", y)}
        yield Example(
          user, example_proto.serialize(features), half if keep_splits else None
        )


def _value(place: str, name: str, value: object) -> example_proto.Value:
  if isinstance(value, str):
    return value.encode()
  if (
    isinstance(value, list)
    and value
    and all(isinstance(item, str) for item in value)
  ):
    return [item.encode() for item in value]
  try:
    numbers = np.asarray(value, np.float64)
  except (TypeError, ValueError, OverflowError):
    numbers = np.array(np.nan)
  if not np.all(np.isfinite(numbers)):
    raise DataError(
      place, f"{name} is {str(value)[:60]}, expected finite numbers or text."
    )
  if name == "y" and numbers.ndim == 0 and numbers == np.rint(numbers):
    return numbers.astype(np.int64)
  return numbers
