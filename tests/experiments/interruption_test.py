import concurrent.futures
import contextlib
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

from tff_fair.experiments import interruption

pytestmark = pytest.mark.program


@contextlib.contextmanager
def interrupts(number):
  """Checks that the signal `number` interrupts the block."""
  with pytest.raises(interruption.Interrupted) as info:
    yield
  assert info.value.signal_number == number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_raised_where_the_program_is(number):
  before = signal.getsignal(number)
  with interruption.raise_on_signal():
    assert signal.getsignal(number) is not before
    with interrupts(number):
      signal.raise_signal(number)
  assert signal.getsignal(number) is before


def test_it_waits_for_the_end_of_what_must_not_be_torn():
  done = []

  def work():
    with interruption.defer():
      with interruption.defer():
        signal.raise_signal(signal.SIGTERM)
        done.append("inner")
      done.append("outer")
    done.append("never")

  with interruption.raise_on_signal(), interrupts(signal.SIGTERM):
    work()
  assert done == ["inner", "outer"]


def test_it_is_raised_once():
  with interruption.raise_on_signal():
    with interrupts(signal.SIGINT), interruption.defer():
      signal.raise_signal(signal.SIGINT)
    with interruption.defer():
      pass


def test_an_error_in_the_deferred_part_is_not_replaced():
  def fail():
    with interruption.defer():
      signal.raise_signal(signal.SIGINT)
      raise OSError("full")

  with interruption.raise_on_signal():
    with pytest.raises(OSError, match="full"):
      fail()
    # A deferred signal comes at the next opportunity.
    with interrupts(signal.SIGINT), interruption.defer():
      pass


class Dying:
  """An object whose deletion a weak reference notices."""


def test_what_python_discards_in_a_callback_is_raised_again():
  def die():
    dying = Dying()
    reference = weakref.ref(
      dying, lambda _: signal.raise_signal(signal.SIGTERM)
    )
    del dying  # Python discards what the callback raises.
    assert reference() is None
    done.append("discarded")
    time.sleep(5.0)

  done = []
  with interruption.raise_on_signal(), interrupts(signal.SIGTERM):
    die()
  assert done == ["discarded"]


def test_an_error_in_the_wake_of_a_signal_is_the_signal():
  def careless():
    try:
      signal.raise_signal(signal.SIGTERM)
    except BaseException as error:
      raise AttributeError("half imported") from error

  with interrupts(signal.SIGTERM), interruption.raise_on_signal():
    careless()


def interrupted(work, number=signal.SIGINT):
  """Calls `work(done)` after recording a signal; returns the list `done`."""

  done = []
  with (
    interrupts(number),
    interruption.raise_on_signal(),
    interruption.record_signals(),
  ):
    signal.raise_signal(number)
    work(done)
  return done


def test_a_recorded_signal_waits_for_the_next_look():
  def work(done):
    done.append("torn by nothing")
    interruption.check()
    done.append("never")

  assert interrupted(work, signal.SIGTERM) == ["torn by nothing"]


def test_a_second_signal_does_not_wait():
  def work(done):
    with interruption.defer():
      done.append("begun")
      signal.raise_signal(signal.SIGINT)
      done.append("never")

  assert interrupted(work) == ["begun"]


def test_other_threads_leave_signals_to_the_main_thread():
  def work(done):
    def look():
      with interruption.record_signals():
        interruption.check()
      done.append("looked")

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

  assert interrupted(work) == ["looked"]


def test_signals_of_others_and_other_threads_are_left_to_them():
  assert signal.SIGTERM in interruption.unhandled_signals()
  former = signal.signal(signal.SIGTERM, lambda *_: None)
  try:
    assert signal.SIGTERM not in interruption.unhandled_signals()
  finally:
    signal.signal(signal.SIGTERM, former)
  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    assert executor.submit(interruption.unhandled_signals).result() == ()


PROGRAM = """
import importlib.util, signal, sys
spec = importlib.util.spec_from_file_location("interruption", sys.argv[1])
interruption = importlib.util.module_from_spec(spec)
spec.loader.exec_module(interruption)
with interruption.raise_on_signal(owns_process=True):
  with getattr(interruption, sys.argv[2])():
    for _ in range(int(sys.argv[3])):
      signal.raise_signal(signal.SIGTERM)
    print("went on", file=sys.stderr)
    sys.exit(1)
"""


@pytest.mark.parametrize(
  ("way", "number_of_signals", "status", "said"),
  [
    ("exit_on_signal", 1, -signal.SIGTERM, "Interrupted.\n"),
    ("record_signals", 2, -signal.SIGTERM, "Interrupted.\n"),
    ("record_signals", 1, 1, "went on\n"),
  ],
)
def test_a_program_ends_at_once_if_it_may(way, number_of_signals, status, said):
  words = [interruption.__file__, way, str(number_of_signals)]
  ended = subprocess.run(
    [sys.executable, "-c", PROGRAM, *words],
    check=False,
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert (ended.returncode, ended.stderr) == (status, said)


def test_a_program_that_uses_the_library_is_not_ended():
  done = []
  with interruption.raise_on_signal():
    with interruption.exit_on_signal(), interrupts(signal.SIGTERM):
      signal.raise_signal(signal.SIGTERM)
    done.append("went on")
  assert done == ["went on"]
