"""Waits for workers: looks now and then whether to go on waiting.

A computation is a function of its arguments, so one whose worker is lost can
run again in another one, with the same result. No other program waits for
a worker of this one, and this one alone can end a frozen worker.
"""

import concurrent.futures
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

from tff_fair.runtime import workers

# How often to look. A signal handler only takes notes, so this is how long one
# who wants to end the program waits for it.
_SECONDS_PER_LOOK = 0.2
# A program that was stopped itself has not waited meanwhile.
_MOST_SECONDS_BETWEEN_LOOKS = 1.0

# Without a limit of the user's: a worker has this long, or so many times what
# the slowest computation took; and it is left alone as long as it computes.
_LEAST_LIMIT = 300.0
_TIMES_THE_SLOWEST = 10.0
_SECONDS_OF_SILENCE = 60.0
_CPU_SECONDS_OF_LIFE = 1.0


class WorkerLostError(RuntimeError):
  """The workers that computed something were lost, one after the other."""


def _nothing(*_: object) -> None:
  pass


@dataclasses.dataclass
class Supervision:
  """How to wait, as `supervised` takes it.

  Attributes:
    slowest: Seconds that the slowest computation took so far.
  """

  check: Callable[[], None] = _nothing
  timeout: float | None = None
  say: Callable[[str], None] = _nothing
  slowest: float = 0.0


_current: Supervision | None = None


@contextlib.contextmanager
def supervised(
  *,
  check: Callable[[], None] = _nothing,
  timeout: float | None = None,
  say: Callable[[str], None] = _nothing,
) -> Iterator[None]:
  """Replaces workers of this program that are lost, and runs their work again.

  A worker that has ended is lost. So is one that does not answer in time: the
  program kills it. After three in a row, computing raises `WorkerLostError`.
  Workers on other hosts cannot be replaced: there a `timeout` raises it, too.

  Args:
    check: Is called several times a second while a computation lasts; what it
      raises ends the wait and the computation.
    timeout: Seconds that a computation (a round, or an evaluation of up to some
      hundred clients) may take; 0 is no limit. By default ten times as long as
      the slowest so far, five minutes at least; a worker of this program that
      uses processor time is left alone longer.
    say: Takes a line about each worker that is lost.
  """
  global _current  # noqa: PLW0603
  former = _current
  _current = Supervision(check, timeout, say)
  try:
    yield
  finally:
    _current = former


def current() -> Supervision | None:
  """Returns how to wait; None to wait as long as it takes."""
  return _current


def wait(
  future: concurrent.futures.Future[Any],
  supervision: Supervision,
  give_up: Callable[[float], None],
  worker: workers.Worker | None = None,
) -> Any:
  """Returns the result of a computation.

  Args:
    future: The result to come.
    supervision: How to wait.
    give_up: Takes the seconds when they are too many; makes the future end.
    worker: Who computes, if it is of this program.
  """
  patience = _Patience(supervision, worker)
  has_given_up = False
  while True:
    with contextlib.suppress(TimeoutError):  # The look's, or its own.
      future.result(timeout=_SECONDS_PER_LOOK)
    if future.done():  # It may have ended since the look.
      result = future.result()
      supervision.slowest = max(supervision.slowest, patience.elapsed())
      return result
    supervision.check()
    if patience.is_over() and not has_given_up:
      has_given_up = True
      give_up(patience.waited)


class _Patience:
  """Knows when a computation has taken too long.

  Attributes:
    waited: Seconds spent waiting, without those in which this program stood
      still itself.
  """

  def __init__(
    self, supervision: Supervision, worker: workers.Worker | None
  ) -> None:
    self.waited = 0.0
    self._timeout = supervision.timeout
    self._limit = max(_LEAST_LIMIT, _TIMES_THE_SLOWEST * supervision.slowest)
    self._worker = worker
    self._start = self._last_look = time.monotonic()
    self._last_life = 0.0
    self._cpu_seconds = 0.0

  def elapsed(self) -> float:
    return time.monotonic() - self._start

  def is_over(self) -> bool:
    now = time.monotonic()
    self.waited += min(now - self._last_look, _MOST_SECONDS_BETWEEN_LOOKS)
    self._last_look = now
    if self._timeout is not None:
      return 0 < self._timeout < self.waited
    if self._worker is None:
      return False
    cpu_seconds = self._worker.cpu_seconds()
    if cpu_seconds - self._cpu_seconds >= _CPU_SECONDS_OF_LIFE:
      self._cpu_seconds, self._last_life = cpu_seconds, self.waited
    return (
      self.waited > self._limit
      and self.waited - self._last_life > _SECONDS_OF_SILENCE
    )
