"""Reads LEAF's JSON: `users`, `num_samples` and `user_data`, or `text` by user.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018).
"""

import pathlib
from collections.abc import Iterator
from typing import Any, TypedDict

from tasks.data_error import DataError
from tasks.formats import data_files, parsing


class UserData(TypedDict):
  """The examples of one user, inputs and labels of equal number."""

  x: list[object]
  y: list[int | float | str]


def read_users(
  path: pathlib.Path, on_read: data_files.OnRead = data_files.ignore
) -> Iterator[tuple[str, UserData]]:
  """Yields the users of a file and their data, x and y of equal length.

  Raises:
    DataError: If the file is not as it must be.
  """
  leaf = _parsed(path, on_read)
  try:
    users, counts, user_data = (
      list(leaf["users"]),
      list(leaf["num_samples"]),
      dict(leaf["user_data"]),
    )
  except (TypeError, KeyError, ValueError) as error:
    raise DataError(
      path,
      "is no file of LEAF: expected users and num_samples, both lists, and "
      "user_data by user.",
    ) from error
  if len(users) != len(counts) or len(set(map(str, users))) != len(users):
    raise DataError(
      path,
      f"has {len(users)} users, {len(set(map(str, users)))} of them "
      f"different, and {len(counts)} num_samples; expected as many of each.",
    )
  for user, count in zip(map(str, users), counts, strict=True):
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


def read_texts(path: pathlib.Path) -> dict[str, str]:
  """Returns the text of each user of a file that has texts in place of samples.

  A sample is a window of the text and the character after it, so the file is
  a small part of one with all samples.

  Args:
    path: JSON, compressed with gzip or not: `users` and `text`, two lists of
      equal length.

  Raises:
    DataError: If the file is not as it must be.
  """
  leaf = _parsed(path)
  try:
    users, texts = list(leaf["users"]), list(leaf["text"])
  except (TypeError, KeyError) as error:
    raise DataError(
      path, "has no texts by user: expected users and text, both lists."
    ) from error
  if len(set(map(str, users))) != len(users) or len(users) != len(texts):
    raise DataError(
      path,
      f"has {len(users)} users, {len(set(map(str, users)))} of them "
      f"different, and {len(texts)} texts; expected as many of each.",
    )
  for user, text in zip(users, texts, strict=True):
    if not isinstance(text, str):
      raise DataError(
        f"{path}, user {user}", f"expected a text, found {str(text)[:40]!r}."
      )
  return dict(zip(map(str, users), texts, strict=True))


def _parsed(
  path: pathlib.Path, on_read: data_files.OnRead = data_files.ignore
) -> Any:
  with data_files.opened(path, on_read) as file:
    content = file.read()
  try:
    return parsing.parse_json(content)
  except parsing.ParseError as error:
    raise DataError(path, f"{error}.") from error
