import contextlib
import fcntl
import io
import os
import pty
import struct
import termios
import time
from types import SimpleNamespace

import numpy as np
import pytest

import tff_fair
from tests import waiting
from tests.experiments.training.rounds_test import round_state
from tff_fair.experiments import progress
from tff_fair.experiments.training import round_progress
from tff_fair.experiments.training.callbacks import Callbacks
from tff_fair.experiments.training.round_progress import (
  RoundProgress,
  track_work,
)
from tff_fair.experiments.training.round_state import RoundEvaluation


def evaluation(*accuracies):
  summary = {"accuracy": tff_fair.metrics.fairness_summary(accuracies)}
  return RoundEvaluation(summary, {"accuracy": np.array(accuracies)})


@contextlib.contextmanager
def progress_of(total_rounds, completed_rounds=0, **settings):
  """Yields a function that reports an evaluated round to `RoundProgress`."""
  with Callbacks([RoundProgress(total_rounds, **settings)]) as callbacks:
    callbacks.start(SimpleNamespace(rounds=range(completed_rounds)))

    def report(round_num, found):
      for writer in callbacks.writers:
        writer.write(round_state(round_num, evaluation=found))

    yield report


def test_a_log_has_a_line_for_each_evaluation(capsys):
  with progress_of(100, completed_rounds=4) as report:
    report(5, None)
    report(6, evaluation(0.5, 0.75))
    report(7, None)
  captured = capsys.readouterr()
  assert captured.out == ""
  (line,) = captured.err.splitlines()
  assert line.startswith("round   6/100, ")
  assert line.endswith(" accuracy 62.5%, std 12.5%, worst 10% 50.0%")


def test_a_start_that_fails_ends_with_its_error_alone():
  said = []
  with (
    pytest.raises(AttributeError, match="rounds"),
    Callbacks([RoundProgress(3)], say=said.append) as callbacks,
  ):
    callbacks.start(SimpleNamespace())
  assert said == []


def test_a_log_has_a_line_after_a_while(capsys, monkeypatch):
  now = [0.0]
  monkeypatch.setattr("time.monotonic", lambda: now[0])
  with progress_of(9) as report:
    for round_num in range(1, 8):
      now[0] += 10
      report(round_num, None)
  assert capsys.readouterr().err.splitlines() == [
    "round 3/9, 10.00 s a round",
    "round 6/9, 10.00 s a round",
  ]


@contextlib.contextmanager
def stderr_on_a_terminal():
  """Makes stderr a terminal; yields a function that returns its new output."""
  ours, theirs = pty.openpty()
  fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
  os.set_blocking(ours, False)
  with open(theirs, "w") as terminal, contextlib.redirect_stderr(terminal):
    shown = bytearray()

    def read():
      terminal.flush()
      with contextlib.suppress(BlockingIOError):
        while True:
          shown.extend(os.read(ours, 10**6))
      return shown.decode()

    yield read
  os.close(ours)


def test_a_terminal_has_a_bar():
  with stderr_on_a_terminal() as shown:
    progress.say_to_terminal("Wait ...")
    with progress_of(4, completed_rounds=2) as report:
      report(3, evaluation(0.5, 0.75))
      report(4, None)
    text = shown()
  assert text.startswith("Wait ...")
  assert "4/4" in text
  assert "accuracy 62.5%, std 12.5%, worst 10% 50.0%" in text
  assert max(map(len, text.replace("\n", "\r").split("\r"))) <= 100


def test_a_log_begins_with_the_model_before_training(capsys):
  with progress_of(20) as report:
    report(0, evaluation(0.5, 0.75))
    report(1, evaluation(0.75, 0.75))
  first, second = capsys.readouterr().err.splitlines()
  assert first == "round  0/20, accuracy 62.5%, std 12.5%, worst 10% 50.0%"
  assert second.startswith("round  1/20, 0.")


@pytest.fixture
def is_impatient(monkeypatch):
  """Shortens all waiting times of progress reports."""
  monkeypatch.setattr(round_progress, "_SECONDS_PER_TICK", 0.005)
  monkeypatch.setattr(progress, "SECONDS_OF_LONG_WORK", 0.0)


@pytest.mark.usefixtures("is_impatient")
def test_a_log_says_that_a_long_round_is_alive(capsys, monkeypatch):
  shown = []
  monkeypatch.setattr(progress, "say", shown.append)
  monkeypatch.setattr(
    round_progress.LongWork, "is_line_due", lambda *_: len(shown) < 2
  )
  begun = iter([100, 103, 108])
  with (
    progress_of(20, count=lambda: (next(begun), 2)),
    track_work("round 1", 12),
  ):
    waiting.until(lambda: len(shown) == 2)
  first, second = shown
  assert first.startswith("round 1: 1 of 12 clients done after 00:00, about ")
  assert second.startswith("round 1: 6 of 12 clients done after 00:00, about ")
  assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("is_impatient")
def test_a_terminal_shows_clients_in_the_bar():
  with stderr_on_a_terminal() as shown:
    begun = iter([3])
    with progress_of(4, count=lambda: (next(begun, 7), 2)) as report:
      with track_work("round 1", 5):
        waiting.until(lambda: "2 of 5 clients done" in shown())
      report(1, evaluation(0.5, 0.75))
      with track_work("round 2", 5):
        waiting.until(lambda: "round 2: " in shown())
      report(2, None)
    text = shown()
  assert text.rstrip().endswith("worst 10% 50.0%]")


@pytest.mark.usefixtures("is_impatient")
def test_quick_work_and_silence_say_nothing(capsys):
  with progress_of(9) as report:
    with track_work("round 1", 5):
      time.sleep(0.02)
    report(1, None)
  with track_work("round 1", 5):
    time.sleep(0.02)
  assert capsys.readouterr().err == ""


# Tests of messages about long work, with a clock that the tests set.


def work(num_clients=50, passes=1, begun=100):
  return round_progress.LongWork("round 1", num_clients, passes, 1000.0, begun)


@pytest.mark.parametrize(
  ("passes", "begun", "text"),
  [
    # Of the clients that have begun, two are still at work.
    (1, 100, "round 1: 0 of 50 clients done after 01:00"),
    (1, 102, "round 1: 0 of 50 clients done after 01:00"),
    (1, 103, "round 1: 1 of 50 clients done after 01:00, about 49:00 to go"),
    (1, 112, "round 1: 10 of 50 clients done after 01:00, about 04:00 to go"),
    (3, 132, "round 1: 10 of 50 clients done after 01:00, about 04:00 to go"),
    (3, 104, "round 1: 0 of 50 clients done after 01:00"),
    # The count is below that at the start, or above the number of clients.
    (1, 99, "round 1: 0 of 50 clients done after 01:00"),
    (1, 999, "round 1: 50 of 50 clients done after 01:00, about 00:00 to go"),
  ],
)
def test_says_who_is_done_and_what_is_left(passes, begun, text):
  assert work(passes=passes).describe(1060.0, (begun, 2)) == text


@pytest.mark.parametrize("count", [None, (120, 0), (120, -1)])
def test_without_a_count_it_says_how_long_it_has_taken(count):
  text = "round 1: 1 client, at work for 1:00:05"
  assert work(num_clients=1).describe(4605.0, count) == text
  if count is not None:
    assert work(num_clients=1, begun=None).describe(4605.0, (9, 2)) == text


def test_a_log_has_lines_now_and_then():
  followed = work()
  due = [s for s in range(700) if followed.is_line_due(1000.0 + s)]
  assert due == [10, 30, 60, 240, 420, 600]


# Tests of progress in bytes.


class Terminal(io.StringIO):
  def isatty(self):
    return True


def _run(steps, total=200):
  with progress.AmountProgress("Reading x", total) as amount:
    for step in steps:
      amount.add(step)


def test_lines_now_and_then_without_a_terminal(capsys, monkeypatch):
  _run([50, 50])
  assert capsys.readouterr().err == ""  # The work ended too soon for a line.
  monkeypatch.setattr(progress, "SECONDS_PER_LINE", 0)
  _run([50, 100])
  assert capsys.readouterr() == (
    "",
    "Reading x: 50 B, 25%\nReading x: 150 B, 75%\n",
  )


def test_a_bar_on_a_terminal():
  with contextlib.redirect_stderr(Terminal()) as terminal:
    _run([50, 150])
  last = terminal.getvalue().split("\r")[-1]
  assert last.startswith("Reading x: 100%")
  assert "200/200" in last


def test_items_that_take_long_are_counted_in_a_log(capsys, monkeypatch):
  times = iter([0, 1, 31, 32, 62])
  monkeypatch.setattr(time, "monotonic", lambda: next(times))
  assert list(progress.track("abcd", 4, "reading runs")) == list("abcd")
  assert capsys.readouterr().err.splitlines() == [
    "reading runs: 2 of 4",
    "reading runs: 4 of 4",
  ]
