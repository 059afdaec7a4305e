"""Flags whose value is a number, or a range that numbers are drawn from."""

import re

from absl import flags

Value = int | str  # 5, or "5-15".
_LARGEST = 2**31 - 1

# A flag defined here belongs to the module that asks for it.
flags.disclaim_key_flags()


class _Parser(flags.ArgumentParser):
  """Reads positive integers and ranges of them."""

  def parse(self, argument: Value) -> Value:
    """Returns the number, or the range as it is usually written."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(argument))
    least, most = (
      (0, 0)
      if match is None
      else (int(match[1]), int(match[1] if match[2] is None else match[2]))
    )
    if not 1 <= least <= most <= _LARGEST:
      raise ValueError(
        "expected a positive integer, or a range of them, as 5 or 5-15, up to "
        f"{_LARGEST}"
      )
    return least if least == most else f"{least}-{most}"

  def flag_type(self) -> str:
    """Returns what the value is."""
    return "number or range"


def define(
  name: str, default: int | None, text: str
) -> flags.FlagHolder[Value]:
  """Defines a flag."""
  holder: flags.FlagHolder[Value] = flags.DEFINE(_Parser(), name, default, text)
  return holder


def bounds(value: Value) -> tuple[int, int]:
  """Returns the least and the greatest number, which may be the same."""
  least, _, most = str(value).partition("-")
  return int(least), int(most or least)
