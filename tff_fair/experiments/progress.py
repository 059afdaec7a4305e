"""Shows progress: as a bar on a terminal, otherwise as occasional lines.

Progress goes to stderr; stdout is for results.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

import tqdm

from tff_fair import escaping

# A function that shows a line to the user, like `say`.
Say = Callable[[str], None]

# Seconds between lines if there is no terminal; evaluations add further lines.
SECONDS_PER_LINE = 30.0
# Seconds after which long work shows its progress.
SECONDS_OF_LONG_WORK = 2.0


def say(text: str) -> None:
  """Writes a line to stderr for the user."""
  print(escaping.lines(text), file=sys.stderr, flush=True)


def say_to_terminal(text: str) -> None:
  """Writes a line to stderr if it is a terminal, not a log."""
  if has_terminal():
    say(text)


@dataclasses.dataclass(frozen=True)
class Display:
  """Shows lines about a run on stderr, unless `is_silent`."""

  is_silent: bool = False

  def say(self, text: str) -> None:
    """Writes a line, unless the display is silent."""
    if not self.is_silent:
      say(text)


def has_terminal() -> bool:
  """Returns whether stderr is a terminal with at least one line."""
  try:
    return os.get_terminal_size(sys.stderr.fileno()).lines > 0
  except (OSError, ValueError):
    return False


_T = TypeVar("_T")


class AmountProgress:
  """Shows the progress of work with a measurable amount, such as bytes."""

  def __init__(
    self,
    title: str,
    total: int | None,
    unit: str = "B",
    *,
    delay: float = 0.0,
  ) -> None:
    """Takes the work's title and total; a bar appears after `delay` seconds."""
    self._title = title
    self._unit = unit
    self._last_line = time.monotonic()
    self._bar = tqdm.tqdm(
      desc=title,
      total=total,
      unit=unit or "it",
      unit_scale=bool(unit),
      delay=delay,
      leave=not delay,
      dynamic_ncols=True,
      file=sys.stderr,
      disable=None,  # Disabled without a terminal.
    )
    self._total, self._done = total, 0

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    self._bar.close()

  def add(self, amount: int) -> None:
    """Adds an amount to the finished amount, and shows the progress."""
    self.set(self._done + amount, self._total)

  def set(self, done: int, total: int | None) -> None:
    """Sets the finished amount and the total, and shows the progress."""
    if not self._bar.disable:
      self._bar.total = total
      self._bar.update(done - self._done)
    self._done, self._total = done, total
    now = time.monotonic()
    if self._bar.disable and now - self._last_line >= SECONDS_PER_LINE:
      self._last_line = now
      say(f"{self._title}: {self._describe()}")

  def _describe(self) -> str:
    done, total = self._done, self._total
    if not self._unit and total is not None:
      return f"{done:,} of {total:,}"
    return f"{done:,} {self._unit}" + (f", {done / total:.0%}" if total else "")


def track(items: Iterable[_T], total: int, action: str) -> Iterator[_T]:
  """Yields `items`; shows how many are done if the work takes long."""
  with AmountProgress(
    action, total, unit="", delay=SECONDS_OF_LONG_WORK
  ) as amount:
    for item in items:
      yield item
      amount.add(1)
