"""Shows how much of a file is done: a bar on a terminal, otherwise lines."""

import sys
import time
from typing import Self

import tqdm

from tff_fair.experiments import progress

_SECONDS_PER_LINE = 30.0


class AmountProgress:
  """Follows an amount, such as the bytes of a file."""

  def __init__(self, title: str, total: int | None, unit: str = "B") -> None:
    """Initializes.

    Args:
      title: What is being done.
      total: The whole amount, if it is known.
      unit: Unit of the amount.
    """
    self._title = title
    self._unit = unit
    self._last_line = time.monotonic()
    self._bar = tqdm.tqdm(
      desc=title,
      total=total,
      unit=unit,
      unit_scale=True,
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
      of_total = f", {done / total:.0%}" if total else ""
      progress.say(f"{self._title}: {done:,} {self._unit}{of_total}")
