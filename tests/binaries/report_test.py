"""Tests of tff-fair-report, which writes the page of a report."""

import pytest

from binaries import report
from tests.binaries import in_process
from tests.experiments import report_runs


def prepare(folder):
  for seed, name in enumerate("abc"):
    path = folder / "runs" / name
    report_runs.make(path, seed=seed, is_finished=name != "c")


program = in_process.program_of(report, prepare)


def test_the_page_is_written_and_described(program, tmp_path):
  status, out, err = program("runs", "--title=Mine")
  assert (status, err) == (0, "")
  assert out.startswith(
    "Wrote report.html: 1 task, 1 method, 2 finished runs, 1 unfinished; 0."
  )
  page = (tmp_path / "report.html").read_text()
  assert "<h1>Mine</h1>" in page
  assert "Left out: 1 unfinished run" in page
  assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "runs"]


def test_runs_and_flags_come_in_any_order(program, tmp_path):
  words = ("runs/a", "--output=pages/x.html", "--unfinished", "runs/c")
  assert program(*words).status == 0
  status, out, _ = program(*words, "--overwrite", "runs/b")
  assert status == 0
  assert "2 finished runs, 1 unfinished" in out
  assert "Left out: " not in (tmp_path / "pages" / "x.html").read_text()


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
    (["runs", "--output=runs/a/summary.json/x"], "--output=runs/a/summary.js"),
    (["runs", "--sort=mean"], "--sort: "),
    (["damaged"], "damaged/evaluations.csv: "),
    (["runs", "--baseline=afl"], "--baseline=afl: is not one of the methods"),
    ([""], "The name of a folder of runs is empty"),
  ],
)
def test_a_mistake_is_one_line(program, tmp_path, words, message):
  (tmp_path / "empty").mkdir()
  (tmp_path / "mine").write_text("mine")
  path = report_runs.make(tmp_path / "damaged")
  (path / "evaluations.csv").write_text("round\n1\n")
  assert program(*words).refusal.startswith(f"report: {message}")
  assert not (tmp_path / "report.html").exists()
  assert (tmp_path / "mine").read_text() == "mine"
