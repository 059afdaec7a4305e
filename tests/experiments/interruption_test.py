import signal

import pytest

from tff_fair.experiments import interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_raised_where_the_program_is(number):
  with interruption.raised(), pytest.raises(interruption.Interrupted) as info:
    signal.raise_signal(number)
  assert info.value.signal_number == number


def test_it_is_no_exception_that_a_retry_would_catch():
  assert not issubclass(interruption.Interrupted, Exception)


def test_handlers_are_restored():
  before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
  with interruption.raised():
    assert signal.getsignal(signal.SIGINT) is not before[0]
  after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
  assert after == before


def test_it_waits_for_the_end_of_what_must_not_be_torn():
  done = []

  def work():
    with interruption.deferred():
      with interruption.deferred():
        signal.raise_signal(signal.SIGTERM)
        done.append("inner")
      done.append("outer")
    done.append("never")

  with interruption.raised(), pytest.raises(interruption.Interrupted) as info:
    work()
  assert done == ["inner", "outer"]
  assert info.value.signal_number == signal.SIGTERM


def test_it_is_raised_once():
  with interruption.raised():
    with pytest.raises(interruption.Interrupted), interruption.deferred():
      signal.raise_signal(signal.SIGINT)
    with interruption.deferred():
      pass


def test_an_error_in_the_deferred_part_is_not_replaced():
  def fail():
    with interruption.deferred():
      signal.raise_signal(signal.SIGINT)
      raise OSError("disk full")

  with interruption.raised():
    with pytest.raises(OSError, match="disk full"):
      fail()
    # The signal comes at the next opportunity.
    with pytest.raises(interruption.Interrupted), interruption.deferred():
      pass
