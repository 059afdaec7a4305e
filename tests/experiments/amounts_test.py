import io
import sys
import time

from tff_fair.experiments import amounts


class Terminal(io.StringIO):
  def isatty(self):
    return True


def on_terminal(monkeypatch):
  # Not a fixture: pytest sets stderr anew between that and the test.
  terminal = Terminal()
  monkeypatch.setattr(sys, "stderr", terminal)
  return terminal


def _run(steps, total=200):
  with amounts.AmountProgress("Reading x", total) as progress:
    for step in steps:
      progress.add(step)


def test_lines_now_and_then_without_a_terminal(capsys, monkeypatch):
  _run([50, 50])
  assert capsys.readouterr().err == ""  # It was over too soon for a line.
  monkeypatch.setattr(amounts, "_SECONDS_PER_LINE", 0)
  _run([50, 100])
  assert capsys.readouterr() == (
    "",
    "Reading x: 50 B, 25%\nReading x: 150 B, 75%\n",
  )


def test_an_unknown_total(capsys, monkeypatch):
  monkeypatch.setattr(amounts, "_SECONDS_PER_LINE", 0)
  with amounts.AmountProgress("Reading x", None) as progress:
    progress.set(5_000, None)
    progress.set(6_000, 12_000)
  assert capsys.readouterr().err.splitlines() == [
    "Reading x: 5,000 B",
    "Reading x: 6,000 B, 50%",
  ]


def test_a_bar_on_a_terminal(monkeypatch):
  terminal = on_terminal(monkeypatch)
  _run([50, 150])
  last = terminal.getvalue().split("\r")[-1]
  assert last.startswith("Reading x: 100%")
  assert "200/200" in last


def test_items_that_take_long_are_counted_in_a_log(capsys, monkeypatch):
  times = iter([0, 1, 31, 32, 62])
  monkeypatch.setattr(time, "monotonic", lambda: next(times))
  assert list(amounts.count("abcd", 4, "reading runs")) == list("abcd")
  assert capsys.readouterr().err.splitlines() == [
    "reading runs: 2 of 4",
    "reading runs: 4 of 4",
  ]


def test_items_that_take_long_are_counted_on_a_terminal(monkeypatch):
  terminal = on_terminal(monkeypatch)
  monkeypatch.setattr(amounts, "_SECONDS_OF_LONG_WORK", 0)
  assert list(amounts.count(range(200), 200, "reading runs")) == [*range(200)]
  assert "reading runs: " in terminal.getvalue()


def test_items_that_are_soon_done_are_not_counted(monkeypatch):
  terminal = on_terminal(monkeypatch)
  assert list(amounts.count("abcd", 4, "reading runs")) == list("abcd")
  assert "reading runs" not in terminal.getvalue()
