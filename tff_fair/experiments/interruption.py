"""Records Ctrl-C and SIGTERM, and ends a program where that is safe.

Python runs a signal handler between any two instructions, also inside callbacks
of its garbage collector and of weak references. There, Python discards an
exception that the handler raises, and the signal is lost. So the handler first
records the signal; the next step depends on the block that the program is in:

- `record_signals`: the program continues until it calls `check`. Runs and
  sweeps call it in each round and wherever they wait.
- `exit_on_signal`: the process ends. This is for the start of a program, which
  does not have anything to save yet.
- `raise_on_signal`: `Interrupted` is raised immediately, and again if Python
  discards it. This is for short work that cleans up after itself.

A second signal takes effect immediately.
"""

import contextlib
import enum
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SECONDS_TO_NEXT_TRY = 0.05


class Interrupted(KeyboardInterrupt):
  """A signal asked the program to end; `advice` says how to resume."""

  def __init__(self, signal_number: int) -> None:
    super().__init__(signal_number)
    self.signal_number = signal_number
    self.advice = ""

  def __str__(self) -> str:
    """Returns the advice on how to resume."""
    return self.advice


class _SignalAction(enum.Enum):
  """What the handler does after it has recorded a signal."""

  RAISE = enum.auto()
  RECORD = enum.auto()
  END = enum.auto()


class _State:
  """The state that the handler and the program share.

  Attributes:
    action: What the handler does after it has recorded a signal.
    pending: The number of a signal that the program has not handled yet.
    num_received: How many signals have come since the handler was installed.
    defer_depth: How many nested `defer` blocks the program is in.
    owns_process: Whether the process runs a program of this project, so that
      the handler may end the process. It must not end a user's program.
    is_resent: Whether the next signal repeats one that Python discarded.
  """

  action = _SignalAction.RAISE
  pending: int | None = None
  num_received = 0
  defer_depth = 0
  owns_process = False
  is_resent = False


def unhandled_signals() -> Sequence[int]:
  """Returns which of SIGINT and SIGTERM do not have a handler yet.

  Returns () outside the main thread, as only that thread can set handlers.
  """
  if not _is_main_thread():
    return ()
  defaults = (signal.SIG_DFL, signal.default_int_handler)
  return [n for n in _SIGNALS if signal.getsignal(n) in defaults]


@contextlib.contextmanager
def raise_on_signal(*, owns_process: bool = False) -> Iterator[None]:
  """Raises `Interrupted` in the main thread if a signal arrives in the block.

  A second signal ends a program that owns its process; in other programs, it
  also raises `Interrupted`.
  """
  former = _State.owns_process
  _State.owns_process = owns_process or former
  try:
    with _install_handler(_SignalAction.RAISE, _SIGNALS), _reraise_discarded():
      try:
        yield
      except Exception as error:
        # A library caught `Interrupted`, and then raised another error.
        if (cause := _cause(error)) is not None:
          raise cause from None
        raise
  finally:
    _State.owns_process = former


@contextlib.contextmanager
def record_signals() -> Iterator[None]:
  """Records signals in the block, and raises `Interrupted` at safe points.

  The safe points are calls of `check`, and the ends of `defer` blocks and of
  this block. The block records only signals that `raise_on_signal` handles or
  that do not have a handler; outside the main thread, it does not record any.
  """
  if not _is_main_thread():
    yield
    return
  ours = [n for n in _SIGNALS if signal.getsignal(n) is _handle]
  with _install_handler(_SignalAction.RECORD, [*unhandled_signals(), *ours]):
    yield
    check()


@contextlib.contextmanager
def exit_on_signal() -> Iterator[None]:
  """Ends the process at a signal in the block if `owns_process` is set."""
  if not _State.owns_process or not _is_main_thread():
    yield
    return
  check()
  with _install_handler(_SignalAction.END, ()):
    yield


@contextlib.contextmanager
def defer() -> Iterator[None]:
  """Delays `Interrupted` to the end of a block that must not stop halfway."""
  _State.defer_depth += 1
  try:
    yield
  finally:
    _State.defer_depth -= 1
  check()


def check() -> None:
  """Raises `Interrupted` if a signal has come, unless in a `defer` block."""
  number = _State.pending
  if number is None or _State.defer_depth or not _is_main_thread():
    return
  _State.pending = None
  raise Interrupted(number)


def request_exit() -> None:
  """Sends SIGTERM to this process, unless it has already received a signal.

  A second signal would end the process before it has saved its work.
  """
  if not _State.num_received:
    os.kill(os.getpid(), signal.SIGTERM)


def _is_main_thread() -> bool:
  return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _install_handler(
  action: _SignalAction, signals: Sequence[int]
) -> Iterator[None]:
  """Handles signals in the block; afterwards restores the former handlers."""
  former_action = _State.action
  former = {number: signal.getsignal(number) for number in signals}
  is_first = _handle not in map(signal.getsignal, _SIGNALS)
  if is_first:
    _State.pending, _State.num_received = None, 0
  _State.action = action
  for number in signals:
    signal.signal(number, _handle)
  try:
    yield
  finally:
    _State.action = former_action
    for number, handler in former.items():
      signal.signal(number, handler)


def _handle(number: int, frame: types.FrameType | None) -> None:
  del frame
  if not _State.is_resent:
    _State.num_received += 1
  _State.is_resent = False
  _State.pending = number
  is_first = _State.num_received <= 1
  if is_first and (_State.defer_depth or _State.action is _SignalAction.RECORD):
    return
  if _State.action is _SignalAction.END if is_first else _State.owns_process:
    _end(number)
  _State.pending = None
  raise Interrupted(number)


def _end(number: int) -> None:
  """Ends the process at once by the signal itself, as shells expect."""
  with contextlib.suppress(OSError, RuntimeError, ValueError, AttributeError):
    sys.stdout.flush()
  with contextlib.suppress(OSError):
    os.write(2, b"Interrupted.\n")
  signal.signal(number, signal.SIG_DFL)
  os.kill(os.getpid(), number)


@contextlib.contextmanager
def _reraise_discarded() -> Iterator[None]:
  """Sends a signal again, a moment later, if Python discards `Interrupted`."""
  former = sys.unraisablehook

  def notice(discarded: Any) -> None:
    if isinstance(discarded.exc_value, Interrupted):
      _State.pending = discarded.exc_value.signal_number
      again = threading.Timer(_SECONDS_TO_NEXT_TRY, _send_again)
      again.daemon = True
      again.start()
    else:
      former(discarded)

  sys.unraisablehook = notice
  try:
    yield
    if _State.action is _SignalAction.RAISE:
      check()
  finally:
    sys.unraisablehook = former


def _send_again() -> None:
  number = _State.pending
  if number is not None:  # None: the program has already handled the signal.
    _State.is_resent = True
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def _cause(error: BaseException | None) -> Interrupted | None:
  """Returns the `Interrupted` that caused an error, if any."""
  while error is not None:
    if isinstance(error, Interrupted):
      return error
    error = error.__cause__ or error.__context__
  return None
