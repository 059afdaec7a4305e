import io
import sys

from binaries import amount_progress


def _run(steps, total=200):
  with amount_progress.AmountProgress("Reading x", total) as progress:
    for step in steps:
      progress.add(step)


def test_lines_now_and_then_without_a_terminal(capsys, monkeypatch):
  _run([50, 50])
  assert capsys.readouterr().err == ""  # It was over too soon for a line.
  monkeypatch.setattr(amount_progress, "_SECONDS_PER_LINE", 0)
  _run([50, 100])
  assert capsys.readouterr() == (
    "",
    "Reading x: 50 B, 25%\nReading x: 150 B, 75%\n",
  )


def test_an_unknown_total(capsys, monkeypatch):
  monkeypatch.setattr(amount_progress, "_SECONDS_PER_LINE", 0)
  with amount_progress.AmountProgress("Reading x", None) as progress:
    progress.set(5_000, None)
    progress.set(6_000, 12_000)
  assert capsys.readouterr().err.splitlines() == [
    "Reading x: 5,000 B",
    "Reading x: 6,000 B, 50%",
  ]


def test_a_bar_on_a_terminal(monkeypatch):
  class Terminal(io.StringIO):
    def isatty(self):
      return True

  terminal = Terminal()
  monkeypatch.setattr(sys, "stderr", terminal)
  _run([50, 150])
  last = terminal.getvalue().split("\r")[-1]
  assert last.startswith("Reading x: 100%")
  assert "200/200" in last
