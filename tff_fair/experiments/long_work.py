"""Says how far a long piece of work is: clients done, time spent, time left.

A worker reports when a client begins, not when it is done. A fixed number of
clients work at the same time. So all that have begun are done, but for that
many.
"""

import dataclasses
from collections.abc import Callable

import tqdm

# Returns how many clients have begun since some time, and how many work at the
# same time; None where nobody knows.
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
    begun: How many clients had begun before; None where nobody knows.
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
    """Returns how many clients are done; None where nobody knows."""
    if count is None or self.begun is None:
      return None
    begun, at_a_time = count
    if at_a_time < 1:  # All begin at once.
      return None
    done = max(0, begun - self.begun - at_a_time) / self.passes
    return min(done, float(self.num_clients))
