"""Shows how much of some work is done: a bar on a terminal, otherwise lines."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Self, TypeVar

import tqdm

from tff_fair.experiments import progress

_T = TypeVar("_T")

_SECONDS_PER_LINE = 30.0
# Who counts items sees nothing of work that takes less.
_SECONDS_OF_LONG_WORK = 2.0


class AmountProgress:
  """Follows an amount, such as the bytes of a file."""

  def __init__(
    self,
    title: str,
    total: int | None,
    unit: str = "B",
    *,
    delay: float = 0.0,
  ) -> None:
    """Initializes.

    Args:
      title: What is being done.
      total: The whole amount, if it is known.
      unit: Unit of the amount; empty for numbers of items.
      delay: After how many seconds the bar appears. With a delay, it goes when
        the work is done.
    """
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
      disable=None,  # Where there is no terminal.
    )
    self._total, self._done = total, 0

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    self._bar.close()

  def add(self, amount: int) -> None:
    """Reports what was done just now."""
    self.set(self._done + amount, self._total)

  def set(self, done: int, total: int | None) -> None:
    """Reports what is done altogether."""
    if not self._bar.disable:
      self._bar.total = total
      self._bar.update(done - self._done)
    self._done, self._total = done, total
    now = time.monotonic()
    if self._bar.disable and now - self._last_line >= _SECONDS_PER_LINE:
      self._last_line = now
      progress.say(f"{self._title}: {self._describe()}")

  def _describe(self) -> str:
    done, total = self._done, self._total
    if not self._unit and total is not None:
      return f"{done:,} of {total:,}"
    return f"{done:,} {self._unit}" + (f", {done / total:.0%}" if total else "")


def count(items: Iterable[_T], total: int, action: str) -> Iterator[_T]:
  """Passes items on, and shows how many are done once that takes long.

  Args:
    items: The items.
    total: How many there will be.
    action: The work on the items, as "reading runs".
  """
  with AmountProgress(
    action, total, unit="", delay=_SECONDS_OF_LONG_WORK
  ) as amount:
    for item in items:
      yield item
      amount.add(1)
