"""Shows how a run gets on: a bar on a terminal, otherwise a line now and then.

A round that takes long shows how many of its clients are done.

Writes to stderr; stdout is for results.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator
from typing import Protocol, Self

import tqdm

from tff_fair.experiments import long_work

if typing.TYPE_CHECKING:
  from tff_fair.experiments.training.loop import Evaluation

# Takes a line for whoever watches, as `say` does.
Say = Callable[[str], None]

# Without a terminal, there is a line for each evaluation and one in so long.
_SECONDS_PER_LINE = 30.0
# Work that takes longer shows how far it is, as often as this.
_SECONDS_OF_LONG_WORK = 2.0
_SECONDS_PER_TICK = 1.0


def say(text: str) -> None:
  """Writes a line for whoever watches."""
  print(text, file=sys.stderr, flush=True)


def say_on_screen(text: str) -> None:
  """Writes a line on a terminal; a log does without it."""
  if _is_on_screen():
    say(text)


class Follower(Protocol):
  """Is told how a run gets on."""

  def __call__(self, round_num: int, evaluation: Evaluation | None) -> None:
    """Takes the end of a round, and its evaluation if there was one."""

  def note(self, text: str) -> None:
    """Takes a few words about the round, for the next line."""

  def watch(
    self, name: str, num_clients: int, passes: int = 1
  ) -> contextlib.AbstractContextManager[None]:
    """Returns what surrounds work of clients that may take long.

    Args:
      name: What it is.
      num_clients: How many clients take part.
      passes: How often each begins, in the eyes of the worker.
    """


def follow(
  total_rounds: int,
  *,
  completed_rounds: int = 0,
  count: long_work.Count = lambda: None,
  is_silent: bool = False,
) -> contextlib.AbstractContextManager[Follower]:
  """Returns what follows the rounds of a run; see `Progress`."""
  if is_silent:
    return contextlib.nullcontext(_Silence())
  return Progress(total_rounds, completed_rounds=completed_rounds, count=count)


class _Silence:
  def __call__(self, round_num: int, evaluation: Evaluation | None) -> None:
    pass

  def note(self, text: str) -> None:
    pass

  def watch(
    self, name: str, num_clients: int, passes: int = 1
  ) -> contextlib.AbstractContextManager[None]:
    del name, num_clients, passes
    return contextlib.nullcontext()


class Progress:
  """Follows the rounds of a run, and shows that long work is alive."""

  def __init__(
    self,
    total_rounds: int,
    *,
    completed_rounds: int = 0,
    count: long_work.Count = lambda: None,
  ) -> None:
    """Takes how many rounds there are, and how many there have been.

    Args:
      total_rounds: The number of the last round.
      completed_rounds: That of the round to go on from.
      count: Counts the clients of a round while it computes.
    """
    self._total = total_rounds
    self._start = self._last_line = time.monotonic()
    self._first = completed_rounds
    self._count = count
    self._work: long_work.LongWork | None = None
    self._is_over = threading.Event()
    self._ticking = threading.Thread(target=self._tick, daemon=True)
    self._last_evaluation = ""
    self._note = ""
    self._bar = None
    if _is_on_screen():
      self._bar = tqdm.tqdm(
        total=total_rounds,
        initial=completed_rounds,
        unit="round",
        dynamic_ncols=True,
        file=sys.stderr,
      )

  def __enter__(self) -> Self:
    self._ticking.start()
    return self

  def __exit__(self, *exc_info: object) -> None:
    self._is_over.set()
    self._ticking.join()
    if self._bar is not None:
      self._bar.close()

  def __call__(self, round_num: int, evaluation: Evaluation | None) -> None:
    """Reports the end of a round, and its evaluation if there was one."""
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
    """See `Follower`."""
    self._note = text

  @contextlib.contextmanager
  def watch(
    self, name: str, num_clients: int, passes: int = 1
  ) -> Iterator[None]:
    """See `Follower`."""
    count = self._count()
    self._work = long_work.LongWork(
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
