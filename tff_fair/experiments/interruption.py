"""Ctrl-C and SIGTERM as an exception that never tears a file."""

import contextlib
import signal
import threading
import types
from collections.abc import Iterator, Sequence

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
  """A signal asked the program to end.

  Attributes:
    signal_number: The signal.
    advice: How to go on, for the user; may be empty.
  """

  def __init__(self, signal_number: int) -> None:
    super().__init__(signal_number)
    self.signal_number = signal_number
    self.advice = ""

  def __str__(self) -> str:
    """Returns the advice."""
    return self.advice


_pending: int | None = None
_num_deferring = 0


def unhandled_signals() -> Sequence[int]:
  """Returns the signals of interruption that nobody handles.

  None in other threads than the main one: signals never come there.
  """
  if threading.current_thread() is not threading.main_thread():
    return ()
  defaults = (signal.SIG_DFL, signal.default_int_handler)
  return [n for n in _SIGNALS if signal.getsignal(n) in defaults]


@contextlib.contextmanager
def raised(signals: Sequence[int] = _SIGNALS) -> Iterator[None]:
  """Raises `Interrupted` where the main thread is when a signal comes.

  Args:
    signals: The signals.
  """
  former = {number: signal.getsignal(number) for number in signals}
  for number in signals:
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
