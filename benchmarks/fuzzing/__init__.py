"""Hostile cases of all kinds; here, what a case is, and how it may end."""

import dataclasses
import enum
from collections.abc import Callable

_MOST_CHARACTERS = 200


class End(enum.Enum):
  """How a case may end."""

  ACCEPTED = "accepted"
  REFUSED = "refused in one line"
  ESCAPED = "ESCAPED"
  # A computation had the same outcome in both contexts, and became this.
  ONE_GRAPH = "one graph"
  CUT = "cut"
  EXECUTORS = "by executors"
  BOTH_FAIL = "both fail"
  BOTH_FAIL_OTHERWISE = "both fail, by other errors"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
  """A hostile case.

  Attributes:
    room: What it is about, for the counts: "train", "npz" ...
    name: What it does, so that a user can do it again.
    run: Does it; an exception has escaped.
  """

  room: str
  name: str
  run: Callable[[], End]


class EscapeError(Exception):
  """A case ended as it must not."""


def short(text: object) -> str:
  """Returns a text in a line of some length at most."""
  line = ascii(text) if not isinstance(text, str) else ascii(text)[1:-1]
  return line[:_MOST_CHARACTERS]


def one_line(message: str) -> End:
  """Returns that a case was refused."""
  if not message.strip() or "\n" in message.strip():
    raise EscapeError(f"no line: {short(message)}")
  return End.REFUSED
