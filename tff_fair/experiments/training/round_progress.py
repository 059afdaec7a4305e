"""Shows the progress of a run: its rounds, and long work within a round."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator

import tqdm

from tff_fair.experiments import progress
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import RoundState

if typing.TYPE_CHECKING:
  from tff_fair.experiments.runs.run import Run

# A function that returns how many clients have begun since a fixed time, and
# how many compute at a time. It returns None on Dask's workers, which do not
# count clients. All clients that have begun are done, except those that compute
# now.
Count = Callable[[], tuple[int, int] | None]

# The seconds from the start of long work to each of the first lines in a log;
# then the seconds between lines.
_FIRST_LINE_SECONDS = (10.0, 30.0, 60.0)
_LATER_LINE_INTERVAL_SECONDS = 180.0


@dataclasses.dataclass
class LongWork:
  """A computation over many clients that may take long."""

  name: str  # Such as "round 1".
  num_clients: int
  passes: int  # How often each client computes.
  start: float  # A time in seconds.
  # How many clients had begun before the work; None if they are not counted.
  num_begun_before: int | None
  # Seconds from `start` to the next line in a log.
  next_line: float = _FIRST_LINE_SECONDS[0]

  def is_line_due(self, now: float) -> bool:
    """Returns whether a log line is due; if so, sets when the next one is."""
    seconds = now - self.start
    if seconds < self.next_line:
      return False
    coming = [moment for moment in _FIRST_LINE_SECONDS if moment > seconds]
    self.next_line = (
      coming[0] if coming else seconds + _LATER_LINE_INTERVAL_SECONDS
    )
    return True

  def describe(self, now: float, count: tuple[int, int] | None) -> str:
    """Returns the work's progress in words, given the current count."""
    seconds = now - self.start
    spent = tqdm.tqdm.format_interval(seconds)
    clients = f"{self.num_clients:,} client{'s' * (self.num_clients > 1)}"
    done = self._num_done(count)
    if done is None:
      return f"{self.name}: {clients}, at work for {spent}"
    text = f"{self.name}: {int(done):,} of {clients} done after {spent}"
    if done < 1:
      return text
    left = tqdm.tqdm.format_interval(seconds * (self.num_clients / done - 1))
    return f"{text}, about {left} to go"

  def _num_done(self, count: tuple[int, int] | None) -> float | None:
    """Returns how many clients are done; None if they are not counted."""
    if count is None or self.num_begun_before is None:
      return None
    begun, at_a_time = count
    if at_a_time < 1:  # All clients begin at once.
      return None
    done = max(0, begun - self.num_begun_before - at_a_time) / self.passes
    return min(done, float(self.num_clients))


_SECONDS_PER_TICK = 1.0
# The progress display of the run that this thread trains, if it has one.
_ACTIVE_PROGRESS: contextvars.ContextVar[RoundProgress | None] = (
  contextvars.ContextVar("shown", default=None)
)


@contextlib.contextmanager
def track_work(name: str, num_clients: int, passes: int = 1) -> Iterator[None]:
  """Shows how many clients are done while they compute in this context."""
  shown = _ACTIVE_PROGRESS.get()
  if shown is None:
    yield
    return
  shown.begin(name, num_clients, passes)
  try:
    yield
  finally:
    shown.work = None


class RoundProgress(Writer):
  """Shows the progress of a run's rounds, and of long work within them."""

  def __init__(self, total_rounds: int, *, count: Count = lambda: None) -> None:
    self.work: LongWork | None = None
    self._total = total_rounds
    self._count = count
    self._is_over = threading.Event()
    self._ticking = threading.Thread(target=self._tick, daemon=True)
    self._last_evaluation = ""
    self._notes: list[str] = []  # The last notes that are not shown yet.
    self._bar: tqdm.tqdm | None = None

  def on_start(self, run: Run) -> None:
    """Starts to show the rounds after the run's last complete one."""
    # Set `_token` first: `on_end` is also called if the rest of this fails.
    self._token = _ACTIVE_PROGRESS.set(self)
    self._ticking.start()
    self._start = self._last_line = time.monotonic()
    self._first = len(run.rounds)
    if progress.has_terminal():
      self._bar = tqdm.tqdm(
        total=self._total,
        initial=self._first,
        unit="round",
        dynamic_ncols=True,
        file=sys.stderr,
      )

  def on_end(self, error: BaseException | None) -> None:
    """Stops showing progress."""
    del error
    _ACTIVE_PROGRESS.reset(self._token)
    self._is_over.set()
    self._ticking.join()
    if self._bar is not None:
      self._bar.close()

  def write(self, state: RoundState) -> None:
    """Shows the end of a round, and its evaluation if there was one."""
    now = time.monotonic()
    is_start = state.round_num == self._first  # Round 0, before training.
    if is_start:
      self._start = now
    self._notes = state.notes or self._notes
    evaluation = state.evaluation
    if evaluation is not None:
      self._last_evaluation = evaluation.score.describe(evaluation.statistics)
    if self._bar is not None:
      shown = ", ".join(filter(None, [self._last_evaluation, *self._notes]))
      self._notes = []
      self._bar.set_postfix_str(shown, refresh=is_start)
      self._bar.update(state.round_num - self._bar.n)
      if is_start:
        self._bar.unpause()
      return
    is_due = now - self._last_line >= progress.SECONDS_PER_LINE
    if evaluation is None and not is_due:
      return
    self._last_line = now
    parts = [f"round {state.round_num:{len(str(self._total))}}/{self._total}"]
    if not is_start:
      rate = (now - self._start) / (state.round_num - self._first)
      parts.append(f"{rate:.2f} s a round")
    if evaluation is not None:
      parts.append(self._last_evaluation)
    progress.say(", ".join([*parts, *self._notes]))
    self._notes = []

  def begin(self, name: str, num_clients: int, passes: int) -> None:
    """Starts to show the progress of long work; `track_work` ends it."""
    count = self._count()
    self.work = LongWork(
      name, num_clients, passes, time.monotonic(), count and count[0]
    )

  def _tick(self) -> None:
    while not self._is_over.wait(_SECONDS_PER_TICK):
      work, now = self.work, time.monotonic()
      if work is None:
        continue
      if self._bar is not None:
        if now - work.start >= progress.SECONDS_OF_LONG_WORK:
          self._bar.set_postfix_str(work.describe(now, self._count()))
      elif work.is_line_due(now):
        self._last_line = now
        progress.say(work.describe(now, self._count()))
