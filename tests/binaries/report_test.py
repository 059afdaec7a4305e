"""Tests of the program that writes the page."""

import functools
import signal
import time

import pytest

from binaries import report
from tests.binaries import in_process
from tests.experiments import report_runs


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Runs the program in this process, in an empty folder."""
  monkeypatch.chdir(tmp_path)

  return functools.partial(in_process.run, report)


@pytest.fixture
def folder(tmp_path):
  report_runs.make(tmp_path / "runs" / "a")
  report_runs.make(tmp_path / "runs" / "b", seed=1)
  return tmp_path


def test_the_page_is_written_and_described(program, folder):
  status, out, err = program("runs", "--title=Mine")
  assert (status, err) == (0, "")
  assert out.startswith(
    "Wrote report.html: 1 task, 1 method, 2 finished runs; 0."
  )
  assert "<h1>Mine</h1>" in (folder / "report.html").read_text()
  assert sorted(p.name for p in folder.iterdir()) == ["report.html", "runs"]


def test_runs_and_flags_come_in_any_order(program, folder):
  status, out, _ = program("runs/a", "--output=pages/x.html", "runs/b")
  assert status == 0
  assert "2 finished runs" in out
  assert (folder / "pages" / "x.html").exists()


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "RUNS: are missing"),
    (["nowhere"], "nowhere: there is no such folder"),
    (["empty"], "empty: holds no run"),
    (["runs", "--output="], "--output: is empty"),
    (["runs", "--output=empty"], "--output=empty: is a folder"),
    (["runs", "--output=mine"], "--output=mine: exists already"),
    (["runs", "--output=~nosuchuser/x"], "--output=~nosuchuser/x: there is no"),
    (["runs", "--output=runs/a/summary.json/x"], "--output: "),
    (["runs", "--sort=mean"], "--sort: "),
    (["damaged"], "damaged/evaluations.csv: "),
    (["runs", "--baseline=afl"], "--baseline=afl: is none of the methods"),
    (["runs", "--baseline=afl", "--watch"], "--baseline=afl: is none of"),
    ([""], "The name of a folder of runs is empty"),
    (["nowhere", "--watch"], "nowhere: there is no such folder"),
    (["empty", "--watch"], "empty: holds no run"),
  ],
)
def test_a_mistake_is_one_line(program, folder, words, message):
  (folder / "empty").mkdir()
  (folder / "mine").write_text("mine")
  path = report_runs.make(folder / "damaged")
  (path / "evaluations.csv").write_text("round\n1\n")
  status, out, err = program(*words)
  assert (status, out) == (2, "")
  assert err.startswith(f"report: {message}")
  assert len(err.splitlines()) == 1
  assert not (folder / "report.html").exists()
  assert (folder / "mine").read_text() == "mine"


def test_unfinished_runs_are_shown_on_request(program, folder):
  report_runs.make(folder / "runs" / "c", seed=2, is_finished=False)
  program("runs")
  without = (folder / "report.html").read_text()
  assert program("runs", "--unfinished", "--overwrite")[0] == 0
  assert "Not finished: " not in without
  assert "Not finished: " in (folder / "report.html").read_text()


def test_a_watch_ends_with_the_runs(program, folder):
  status, out, err = program("runs", "--watch")
  assert (status, err) == (0, "")
  assert out.splitlines() == [
    "report.html: 1 task, 1 method, 2 finished runs",
    "All runs are finished, and report.html is complete.",
  ]
  page = (folder / "report.html").read_text()
  assert program("runs", "--overwrite")[0] == 0
  assert (folder / "report.html").read_text() == page


@pytest.mark.parametrize(
  ("signal_number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)]
)
def test_a_watch_ends_with_ctrl_c(
  program, folder, monkeypatch, signal_number, status
):
  report_runs.make(folder / "runs" / "c", seed=2, is_finished=False)
  # The signal comes while the program waits.
  monkeypatch.setattr(
    time, "sleep", lambda _: signal.raise_signal(signal_number)
  )
  outcome = program("runs", "--watch")
  assert outcome.status == status
  assert ("Stopped; report.html" in outcome.stdout) == (status == 0)
  page = (folder / "report.html").read_text()
  assert 'http-equiv="refresh"' not in page
  assert "Not finished: " in page


def test_help(program):
  status, out, _ = program("--help")
  assert status == 0
  assert "Usage: report RUNS ... [--flag=value ...]" in out.splitlines()
  assert max(map(len, out.splitlines())) <= 80
