"""LEAF's JSON: `users`, `num_samples` and `user_data`.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). Users are
clients; the features keep LEAF's names, x and y: numbers as floats, texts as
they are, and a y that is a whole number as an integer.
"""

import collections
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tasks.data_error import DataError
from tasks.preparation import example_proto, source_file
from tasks.preparation.client_data_file import Example

FILENAME = "leaf.sqlite"

_HALVES = ("train", "test")


def files(path: pathlib.Path) -> dict[pathlib.Path, str | None]:
  """Returns LEAF's files, with the half that each belongs to, if any.

  Args:
    path: A file, or a directory of files, or one of directories `train` and
      `test`.

  Raises:
    DataError: If there is none.
  """
  if path.is_file():
    return {path: None}
  halves = {half: sorted((path / half).glob("*.json")) for half in _HALVES}
  found: dict[pathlib.Path, str | None] = {
    file: half for half, paths in halves.items() for file in paths
  }
  if found and not all(halves.values()):
    (missing,) = (half for half, paths in halves.items() if not paths)
    raise DataError(f"{path / missing}: there is no JSON file.")
  found = found or dict.fromkeys(sorted(path.glob("*.json")))
  if not found:
    raise DataError(
      f"{path}: expected a JSON file of LEAF, a folder of such files, or one "
      "with the folders train and test."
    )
  return found


class LeafUsers:
  """The users of LEAF's files.

  Attributes:
    left_out: Number of users that have no example, by reason.
  """

  def __init__(self, halves: Mapping[pathlib.Path, str | None]) -> None:
    """Initializes.

    Args:
      halves: The files with the half of each, as `files` returns them.
    """
    self.left_out: collections.Counter[str] = collections.Counter()
    self._halves = halves

  def examples(
    self,
    *,
    keep_splits: bool,
    on_read: source_file.OnRead = source_file.ignore,
  ) -> Iterator[Example]:
    """Yields the examples; one file at a time is held in memory.

    Args:
      keep_splits: Whether examples stay in the half they are published in; if
        not, that is left to the cut.
      on_read: Told of what was read.

    Raises:
      DataError: If a file is not as it must be, or two of the same half have
        the same user.
    """
    places: dict[tuple[str | None, str], pathlib.Path] = {}
    for path, half in self._halves.items():
      for user, data in read_users(path, on_read):
        if (half, user) in places:
          raise DataError(
            f"{path}, user {user}: is in {places[half, user]} as well; "
            "expected one data set, whose users are each in one file."
          )
        places[half, user] = path
        if not data["y"]:
          self.left_out["user without examples"] += 1
        for number, (x, y) in enumerate(zip(data["x"], data["y"], strict=True)):
          place = f"{path}, user {user}, example {number}"
          features = {"x": _value(place, "x", x), "y": _value(place, "y", y)}
          yield Example(
            user,
            example_proto.serialize(features),
            half if keep_splits else None,
          )


def read_users(
  path: pathlib.Path, on_read: source_file.OnRead = source_file.ignore
) -> Iterator[tuple[str, Mapping[str, Any]]]:
  """Yields the users of a file and what they have, x and y of equal length.

  Raises:
    DataError: If the file is not as it must be.
  """
  with source_file.opened(path, on_read) as file:
    content = file.read()
  try:
    leaf = json.loads(content)
  except UnicodeDecodeError as error:
    raise DataError(
      f"{path}, byte {error.start + 1}: is no UTF-8 text."
    ) from error
  except json.JSONDecodeError as error:
    raise DataError(
      f"{path}, line {error.lineno}, column {error.colno}: is no JSON: "
      f"{error.msg}."
    ) from error
  try:
    users, counts, user_data = (
      list(leaf["users"]),
      list(leaf["num_samples"]),
      dict(leaf["user_data"]),
    )
  except (TypeError, KeyError, ValueError) as error:
    raise DataError(
      f"{path}: is no file of LEAF: expected users and num_samples, both "
      "lists, and user_data by user."
    ) from error
  if len(users) != len(counts) or len(set(map(str, users))) != len(users):
    raise DataError(
      f"{path}: has {len(users)} users, {len(set(map(str, users)))} of them "
      f"different, and {len(counts)} num_samples; expected as many of each."
    )
  for user, count in zip(map(str, users), counts, strict=True):
    data = user_data.get(user)
    if not isinstance(data, dict) or not all(
      isinstance(data.get(name), list) and len(data[name]) == count
      for name in "xy"
    ):
      raise DataError(
        f"{path}, user {user}: expected lists x and y of {count} examples, as "
        "num_samples says."
      )
    yield user, data


def _value(place: str, name: str, value: Any) -> example_proto.Value:
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
  except (TypeError, ValueError):
    numbers = np.array(np.nan)
  if not np.all(np.isfinite(numbers)):
    raise DataError(
      f"{place}: {name} is {str(value)[:60]}, expected finite numbers or text."
    )
  if name == "y" and numbers.ndim == 0 and numbers == np.rint(numbers):
    return numbers.astype(np.int64)
  return numbers
