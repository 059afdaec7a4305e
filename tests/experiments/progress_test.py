import contextlib
import fcntl
import os
import pty
import struct
import termios

import numpy as np

import tff_fair
from tff_fair.experiments import progress
from tff_fair.experiments.training import loop as training_loop


def evaluation(*accuracies):
  summary = {"accuracy": tff_fair.metrics.fairness_summary(accuracies)}
  return training_loop.Evaluation(summary, {"accuracy": np.array(accuracies)})


def test_a_log_has_a_line_for_each_evaluation(capsys):
  with progress.Progress(100, completed_rounds=4) as report:
    report(5, None)
    report(6, evaluation(0.5, 0.75))
    report(7, None)
  captured = capsys.readouterr()
  assert captured.out == ""
  (line,) = captured.err.splitlines()
  assert line.startswith("round   6/100, ")
  assert line.endswith(" accuracy 62.5%, std 12.5%, worst 10% 50.0%")


def test_a_log_has_a_line_after_a_while(capsys, monkeypatch):
  now = [0.0]
  monkeypatch.setattr("time.monotonic", lambda: now[0])
  with progress.Progress(9) as report:
    for round_num in range(1, 8):
      now[0] += 10
      report(round_num, None)
  assert capsys.readouterr().err.splitlines() == [
    "round 3/9, 10.00 s a round",
    "round 6/9, 10.00 s a round",
  ]


@contextlib.contextmanager
def stderr_on_a_terminal():
  """Yields a function that returns what was shown."""
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
    progress.say_on_screen("Wait ...")
    with progress.Progress(4, completed_rounds=2) as report:
      report(3, evaluation(0.5, 0.75))
      report(4, None)
    text = shown()
  assert text.startswith("Wait ...")
  assert "4/4" in text
  assert "accuracy 62.5%, std 12.5%, worst 10% 50.0%" in text
  assert max(map(len, text.replace("\n", "\r").split("\r"))) <= 100


def test_what_is_for_the_screen_is_not_logged(capsys):
  progress.say_on_screen("Wait ...")
  progress.say("News.")
  assert capsys.readouterr() == ("", "News.\n")
