"""Reads LEAF's JSON: `users`, `num_samples`, and `user_data` or `text`.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). A folder holds
the folders `train` and `test`, or one set of files, whose users' examples are
then split at random. Within a set of files, each user is in one file only.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict

import numpy as np

from tasks import cuts, notices
from tasks.data_error import DataError
from tasks.formats import data_files
from tasks.task import Arrays, Split, count_examples
from tff_fair.files import parsing


class UserData(TypedDict):
  """The examples of one user: equally many inputs and labels."""

  x: list[object]
  y: list[int | float | str]


def read_users(
  path: pathlib.Path, on_read: data_files.OnRead = data_files.ignore
) -> Iterator[tuple[str, UserData]]:
  """Yields a file's users and their data, with x and y of equal length."""
  leaf = _parsed(path, on_read)
  counts = _by_user(path, leaf, "num_samples")
  user_data = leaf.get("user_data")
  if not isinstance(user_data, dict):
    raise DataError(path, "is not a file of LEAF: expected user_data by user.")
  for user, count in counts.items():
    data = user_data.get(user)
    if not isinstance(data, dict) or not all(
      isinstance(data.get(name), list) and len(data[name]) == count
      for name in "xy"
    ):
      raise DataError(
        f"{path}, user {user}",
        f"expected lists x and y of {count} examples, as num_samples says.",
      )
    yield user, UserData(x=data["x"], y=data["y"])


def read_set(
  paths: Iterable[pathlib.Path], on_read: data_files.OnRead = data_files.ignore
) -> Iterator[tuple[str, str, UserData]]:
  """Yields each user's place, name and data; holds one file in memory."""
  sources: dict[str, pathlib.Path] = {}
  for path in paths:
    for user, data in read_users(path, on_read):
      place = f"{path}, user {user}"
      if user in sources:
        raise DataError(
          place,
          f"is in {sources[user]} too; expected one data set, with each user "
          "in one file. Put other data sets into folders of their own.",
        )
      sources[user] = path
      yield place, user, data


def read_texts(path: pathlib.Path) -> dict[str, str]:
  """Returns each user's text, from a file that has texts instead of samples."""
  texts = _by_user(path, _parsed(path), "text")
  for user, text in texts.items():
    if not isinstance(text, str):
      raise DataError(
        f"{path}, user {user}", f"expected a text, found {str(text)[:40]!r}."
      )
  return texts


def _parsed(
  path: pathlib.Path, on_read: data_files.OnRead = data_files.ignore
) -> Any:
  with data_files.open_file(path, on_read) as file:
    content = file.read()
  try:
    return parsing.parse_json(content)
  except parsing.ParseError as error:
    raise DataError(path, f"{error}.") from error


def _by_user(path: pathlib.Path, leaf: Any, name: str) -> dict[str, Any]:
  """Returns the list `name`, which is parallel to `users`, as a dictionary."""
  try:
    users, values = [str(user) for user in leaf["users"]], list(leaf[name])
  except (TypeError, KeyError) as error:
    raise DataError(
      path, f"is not a file of LEAF: expected users and {name}, both lists."
    ) from error
  by_user = dict(zip(users, values, strict=False))
  if not len(users) == len(by_user) == len(values):
    raise DataError(
      path,
      f"has {len(users)} users, {len(set(users))} of them different, and "
      f"{len(values)} {name}; expected as many of each.",
    )
  return by_user


# The functions above read files; below, `Users` are the clients of a task.

ToArrays = Callable[[list[object], list[int | float | str]], Arrays]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Users:
  """The users of a folder, by client id."""

  names: tuple[str, ...]  # The users' names, in ascending order.
  train: Split  # Training data.
  test: Split  # Test data.
  num_too_small: int  # Users left out for having too few examples.
  num_in_one_half: int = 0  # Users left out for lacking train or test.

  def sample(
    self, num_clients: int | None, seed: int, *, what: str = "users in the data"
  ) -> "Users":
    """Returns `num_clients` random users; None returns all."""
    everyone = np.arange(len(self.names))
    chosen = cuts.random_subset(everyone, num_clients, seed, what=what)

    def of_chosen(split: Split) -> Split:
      return Split(
        num_examples=split.num_examples[chosen],
        load=lambda client_id: split.load(int(chosen[client_id])),
      )

    return dataclasses.replace(
      self,
      names=tuple(self.names[k] for k in chosen),
      train=of_chosen(self.train),
      test=of_chosen(self.test),
    )

  @property
  def left_out(self) -> str:
    """The number of users that are left out, and why, in words."""
    one_half = ""
    if self.num_in_one_half:
      one_half = f", {self.num_in_one_half:,} only in one of train and test"
    return f"{self.num_too_small:,} with too few examples{one_half}"

  def describe(self) -> str:
    """Returns the number of users and examples in words."""
    return (
      f"{len(self.names):,} users ({self.left_out} left out), "
      f"{count_examples(self.train, self.test)}"
    )


def load_users(
  directory: pathlib.Path | None,
  to_arrays: ToArrays,
  *,
  pattern: str = "*.json",
  test_fraction: float = 0.2,
  min_examples: int = 1,
  seed: int = 0,
) -> Users:
  """Returns the users in a folder who have training and test examples."""
  directory = data_files.require(
    directory, what="data of LEAF", files="JSON files"
  )
  halves = [directory / "train", directory / "test"]
  if any(half.is_dir() for half in halves):
    train, test = (_read(half, pattern, to_arrays) for half in halves)
    sizes = {
      name: [_size(half[name]) if name in half else 0 for half in (train, test)]
      for name in train.keys() | test.keys()
    }
    large = [n for n in sizes if sum(sizes[n]) >= max(1, min_examples)]
    names = sorted(n for n in large if min(sizes[n]) > 0)
    found, num_in_one_half = len(sizes), len(large) - len(names)
    splits = _split(train, names), _split(test, names)
  else:
    whole = _read(directory, pattern, to_arrays)
    found, num_in_one_half = len(whole), 0
    names = sorted(
      name for name in whole if _size(whole[name]) >= max(2, min_examples)
    )
    splits = cuts.local_split(_split(whole, names), test_fraction, seed)
  if not names:
    raise DataError(
      directory,
      f"none of the {found} users in {pattern} has train and test examples, at "
      f"least {max(2, min_examples)} together.",
    )
  return Users(
    names=tuple(names),
    train=splits[0],
    test=splits[1],
    num_too_small=found - len(names) - num_in_one_half,
    num_in_one_half=num_in_one_half,
  )


def _size(arrays: Arrays) -> int:
  return len(arrays[1])


def _split(users: Mapping[str, Arrays], names: list[str]) -> Split:
  return Split(
    num_examples=np.array([_size(users[name]) for name in names], np.int64),
    load=lambda client_id: users[names[client_id]],
  )


def _read(
  directory: pathlib.Path, pattern: str, to_arrays: ToArrays
) -> dict[str, Arrays]:
  paths = sorted(directory.glob(pattern))
  if not paths:
    raise DataError(directory, f"there is no file {pattern}.")
  others = (path for path in directory.iterdir() if path not in paths)
  notices.notify_left_out(directory, others, [pattern])
  users: dict[str, Arrays] = {}
  for place, user, data in read_set(paths):
    try:
      users[user] = to_arrays(data["x"], data["y"])
    except (TypeError, ValueError) as error:
      raise DataError(place, f"{error}.") from error
  return users
