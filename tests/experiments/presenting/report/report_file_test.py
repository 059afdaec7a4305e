"""Tests of `report`, by which scripts write a page."""

import pytest

from tests.experiments import report_runs
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report.page import report
from tff_fair.experiments.runs.discovery import find

pytestmark = pytest.mark.program


@pytest.fixture
def folder(tmp_path):
  report_runs.make(tmp_path / "runs" / "a")
  report_runs.make(tmp_path / "runs" / "b", seed=1)
  return tmp_path


def test_runs_and_folders_make_the_same_page(folder):
  run, other = find([folder / "runs"])
  path = folder / "pages" / "page.html"
  assert report(folder / "runs", path) == path
  page = path.read_text()
  assert "2 finished runs" in page
  # A run that is given twice counts once.
  report(iter([run, other.path, str(run.path)]), path, overwrite=True)
  assert path.read_text() == page
  report(run, path, overwrite=True)
  assert "1 finished run<" in path.read_text()


def test_a_file_that_is_there_is_replaced_on_request_alone(folder):
  page = folder / "page.html"
  page.write_text("mine")
  with pytest.raises(RunError, match=r"page\.html: exists .*overwrite=True"):
    report(folder, page)
  assert page.read_text() == "mine"
  report(folder, str(page), overwrite=True)
  assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
  ("runs", "path", "error", "message"),
  [
    ([], "page.html", ValueError, "Found no runs"),
    (["nowhere"], "page.html", RunError, "nowhere: there is no such folder"),
    ("empty", "page.html", RunError, "empty: holds no run"),
    ("damaged", "page.html", RunError, r"damaged/evaluations\.csv: "),
    ("runs", "empty", RunError, r"empty: is a folder; name a file in it"),
    ("runs", "runs/a/summary.json/x", RunError, "cannot be written"),
  ],
)
def test_mistakes_leave_nothing_behind(
  folder, monkeypatch, runs, path, error, message
):
  monkeypatch.chdir(folder)
  (folder / "empty").mkdir()
  damaged = report_runs.make(folder / "damaged")
  (damaged / "evaluations.csv").write_text("round\n1\n")
  before = sorted(folder.rglob("*"))
  with pytest.raises(error, match=message) as found:
    report(runs, path)
  assert "--" not in str(found.value)
  assert sorted(folder.rglob("*")) == before
