"""Shows how work gets on: a bar on a terminal, otherwise a line now and then.

A round that takes long shows how many of its clients are done. All of it goes
to stderr; stdout is for results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

import tqdm

from tff_fair import escaping


class RoundEvaluation(typing.Protocol):
  """What a line shows of the evaluation after a round."""

  @property
  def score(self) -> typing.Any: ...  # noqa: D102
  @property
  def statistics(self) -> typing.Any: ...  # noqa: D102


# Says how far a long piece of work is: clients done, time spent, time left.
#
# A worker reports when a client begins, not when it is done. A fixed number of
# clients work at the same time. So all that have begun are done, but for that
# many.


# Returns how many clients have begun since some time, and how many work at the
# same time; None where the worker does not say.
Count = Callable[[], tuple[int, int] | None]

# A log has a line after so many seconds, and one in so long from then on.
_MOMENTS = (10.0, 30.0, 60.0)
_LATER = 180.0


@dataclasses.dataclass
class LongWork:
  """Work of clients that may take long.

  Attributes:
    name: What it is: "round 1".
    num_clients: How many clients take part.
    passes: How often each begins, in the eyes of the worker.
    start: When it began, in seconds.
    begun: How many clients had begun before; None where the worker does not
      say.
    next_line: After how many seconds a log has its next line.
  """

  name: str
  num_clients: int
  passes: int
  start: float
  begun: int | None
  next_line: float = _MOMENTS[0]

  def is_line_due(self, now: float) -> bool:
    """Returns whether a log has a line now; then the next one is due later."""
    seconds = now - self.start
    if seconds < self.next_line:
      return False
    coming = [moment for moment in _MOMENTS if moment > seconds]
    self.next_line = coming[0] if coming else seconds + _LATER
    return True

  def describe(self, now: float, count: tuple[int, int] | None) -> str:
    """Returns how far it is.

    Args:
      now: The time in seconds.
      count: What a `Count` returns now.
    """
    seconds = now - self.start
    spent = tqdm.tqdm.format_interval(seconds)
    clients = f"{self.num_clients:,} client{'s' * (self.num_clients > 1)}"
    done = self._done(count)
    if done is None:
      return f"{self.name}: {clients}, at work for {spent}"
    text = f"{self.name}: {int(done):,} of {clients} done after {spent}"
    if done < 1:
      return text
    left = tqdm.tqdm.format_interval(seconds * (self.num_clients / done - 1))
    return f"{text}, about {left} to go"

  def _done(self, count: tuple[int, int] | None) -> float | None:
    """Returns how many clients are done; None where the worker does not say."""
    if count is None or self.begun is None:
      return None
    begun, at_a_time = count
    if at_a_time < 1:  # All begin at once.
      return None
    done = max(0, begun - self.begun - at_a_time) / self.passes
    return min(done, float(self.num_clients))


# Takes a line for the user, as `say` does.
Say = Callable[[str], None]

# Without a terminal, there is a line for each evaluation and one in so long.
_SECONDS_PER_LINE = 30.0
# Work that takes longer shows how far it is, as often as this.
_SECONDS_OF_LONG_WORK = 2.0
_SECONDS_PER_TICK = 1.0


def say(text: str) -> None:
  """Writes a line for the user."""
  print(escaping.lines(text), file=sys.stderr, flush=True)


def say_on_screen(text: str) -> None:
  """Writes a line on a terminal; a log does without it."""
  if _is_on_screen():
    say(text)


@dataclasses.dataclass(frozen=True)
class Display:
  """What the user sees of a run while it computes: on stderr, or nothing.

  Attributes:
    is_silent: Whether it shows nothing.
  """

  is_silent: bool = False

  def say(self, text: str) -> None:
    """Writes a line, as `say` does."""
    if not self.is_silent:
      say(text)


class RoundProgress:
  """Follows the rounds of a run, and shows that long work is alive."""

  def __init__(
    self,
    total_rounds: int,
    *,
    completed_rounds: int = 0,
    count: Count = lambda: None,
    is_silent: bool = False,
  ) -> None:
    """Takes how many rounds there are, and how many there have been.

    Args:
      total_rounds: The number of the last round.
      completed_rounds: That of the round to go on from.
      count: Counts the clients of a round while it computes.
      is_silent: Whether it shows nothing.
    """
    self._is_silent = is_silent
    self._total = total_rounds
    self._start = self._last_line = time.monotonic()
    self._first = completed_rounds
    self._count = (lambda: None) if is_silent else count
    self._work: LongWork | None = None
    self._is_over = threading.Event()
    self._ticking = threading.Thread(target=self._tick, daemon=True)
    self._last_evaluation = ""
    self._note = ""
    self._bar = None
    if _is_on_screen() and not is_silent:
      self._bar = tqdm.tqdm(
        total=total_rounds,
        initial=completed_rounds,
        unit="round",
        dynamic_ncols=True,
        file=sys.stderr,
      )

  def __enter__(self) -> Self:
    if not self._is_silent:
      self._ticking.start()
    return self

  def __exit__(self, *exc_info: object) -> None:
    self._is_over.set()
    if not self._is_silent:
      self._ticking.join()
    if self._bar is not None:
      self._bar.close()

  def __call__(
    self, round_num: int, evaluation: RoundEvaluation | None
  ) -> None:
    """Takes the end of a round, and its evaluation if there was one."""
    if self._is_silent:
      return
    now = time.monotonic()
    is_start = round_num == self._first  # The model before training.
    if is_start:
      self._start = now
    if evaluation is not None:
      self._last_evaluation = evaluation.score.describe(evaluation.statistics)
    if self._bar is not None:
      shown = ", ".join(filter(None, [self._last_evaluation, self._note]))
      self._note = ""
      self._bar.set_postfix_str(shown, refresh=is_start)
      self._bar.update(round_num - self._bar.n)
      if is_start:
        self._bar.unpause()
      return
    if evaluation is None and now - self._last_line < _SECONDS_PER_LINE:
      return
    self._last_line = now
    parts = [self._name(round_num)]
    if not is_start:
      rate = (now - self._start) / (round_num - self._first)
      parts.append(f"{rate:.2f} s a round")
    if evaluation is not None:
      parts.append(self._last_evaluation)
    if self._note:
      parts.append(self._note)
      self._note = ""
    say(", ".join(parts))

  def note(self, text: str) -> None:
    """Takes a few words about the round, for the next line."""
    self._note = text

  @contextlib.contextmanager
  def watch(
    self, name: str, num_clients: int, passes: int = 1
  ) -> Iterator[None]:
    """Surrounds work of clients that may take long.

    Args:
      name: What it is.
      num_clients: How many clients take part.
      passes: How often each begins, in the eyes of the worker.
    """
    count = self._count()
    self._work = LongWork(
      name, num_clients, passes, time.monotonic(), count and count[0]
    )
    try:
      yield
    finally:
      self._work = None

  def _name(self, round_num: int) -> str:
    return f"round {round_num:{len(str(self._total))}}/{self._total}"

  def _tick(self) -> None:
    while not self._is_over.wait(_SECONDS_PER_TICK):
      work, now = self._work, time.monotonic()
      if work is None:
        continue
      if self._bar is not None:
        if now - work.start >= _SECONDS_OF_LONG_WORK:
          self._bar.set_postfix_str(work.describe(now, self._count()))
      elif work.is_line_due(now):
        self._last_line = now
        say(work.describe(now, self._count()))


def _is_on_screen() -> bool:
  try:
    return os.get_terminal_size(sys.stderr.fileno()).lines > 0
  except (OSError, ValueError):
    return False


# How much of some work is done: a bar on a terminal, otherwise lines.


_T = TypeVar("_T")


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
      say(f"{self._title}: {self._describe()}")

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
