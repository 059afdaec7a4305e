"""Ctrl-C and SIGTERM as an exception that never tears a file."""

import contextlib
import signal
import types
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
  """A signal asked the program to end; like KeyboardInterrupt, no Exception.

  Attributes:
    status: The exit status that shells know it by, 128 + the signal's number.
    advice: How to go on, for the user; may be empty.
  """

  def __init__(self, signal_number: int) -> None:
    super().__init__(signal_number)
    self.status = 128 + signal_number
    self.advice = ""


_pending: int | None = None
_num_deferring = 0


@contextlib.contextmanager
def raised() -> Iterator[None]:
  """Raises `Interrupted` where the main thread is when a signal comes."""
  former = {number: signal.getsignal(number) for number in _SIGNALS}
  for number in _SIGNALS:
    signal.signal(number, _handle)
  try:
    yield
  finally:
    for number, handler in former.items():
      signal.signal(number, handler)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
  """Holds `Interrupted` back until its end: for what must not stop half-way."""
  global _num_deferring, _pending  # noqa: PLW0603
  _num_deferring += 1
  try:
    yield
  finally:
    _num_deferring -= 1
  if _pending is not None and _num_deferring == 0:
    number, _pending = _pending, None
    raise Interrupted(number)


def _handle(number: int, frame: types.FrameType | None) -> None:
  global _pending  # noqa: PLW0603
  del frame
  if _num_deferring == 0:
    raise Interrupted(number)
  _pending = number
