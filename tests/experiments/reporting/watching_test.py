"""Tests of the watch that renews the page of runs that go on."""

import json
import time
import types

import pytest

from tests.experiments import report_runs
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import watching
from tff_fair.experiments.reporting.page import report

pytestmark = pytest.mark.program

REFRESH = 'http-equiv="refresh"'


class Watch:
  """Watches the runs in a folder while some events happen, one a pause."""

  def __init__(self, folder):
    self.folder = folder
    self.events = []
    self.pauses = []
    self.told = []
    self.clock = types.SimpleNamespace(
      sleep=self.sleep, monotonic=time.monotonic
    )

  def __call__(self, *events, **arguments):
    self.events = list(events)
    watching.watch(
      [self.folder / "runs"],
      self.folder / "page.html",
      tell=self.told.append,
      **arguments,
    )
    assert self.events == []
    return self.told

  def sleep(self, seconds):
    self.pauses.append(seconds)
    self.events.pop(0)()


@pytest.fixture
def watch(tmp_path, monkeypatch):
  found = Watch(tmp_path)
  # Its own clock alone: other threads of this process sleep as well.
  monkeypatch.setattr(watching, "time", found.clock)
  return found


@pytest.fixture
def page(tmp_path):
  return tmp_path / "page.html"


def finish(path):
  (path / "summary.json").write_text('{"rounds": 20, "num_clients": 12}')


def stop():
  raise KeyboardInterrupt


def test_the_page_is_renewed_until_all_runs_are_finished(watch, tmp_path, page):
  running = report_runs.make(tmp_path / "runs" / "a", is_finished=False)
  texts = []

  def look():
    texts.append(page.read_text())

  def change():
    look()
    report_runs.make(tmp_path / "runs" / "b", seed=1, is_finished=False)

  def end():
    look()
    for path in (running, tmp_path / "runs" / "b"):
      finish(path)

  told = watch(look, change, end)
  assert [text.count(REFRESH) for text in texts] == [1, 1, 1]
  assert texts[0] == texts[1] != texts[2]
  # Running runs are shown as finished ones are.
  assert "Not finished: " in texts[0]
  assert 'id="t0-curves"' in texts[0]
  assert [text.rpartition(": ")[2] for text in told] == [
    "1 task, 1 method, 0 finished runs, 1 unfinished",
    "1 task, 1 method, 0 finished runs, 2 unfinished",
    "1 task, 1 method, 2 finished runs",
  ]
  whole = report(tmp_path / "runs", tmp_path / "other.html")
  assert page.read_text() == whole.read_text()


def test_ctrl_c_leaves_a_page_that_no_longer_loads_itself(
  watch, tmp_path, page
):
  report_runs.make(tmp_path / "runs" / "a", is_finished=False)
  texts = []
  with pytest.raises(KeyboardInterrupt):
    watch(lambda: texts.append(page.read_text()), stop)
  (before,) = texts
  assert REFRESH in before
  assert REFRESH not in page.read_text()
  assert len(page.read_text()) > len(before) - 100


def test_runs_that_a_sweep_has_not_started_are_waited_for(watch, tmp_path):
  runs = tmp_path / "runs"
  runs.mkdir()
  (runs / "sweep.json").write_text(json.dumps({"names": {"a": "x", "b": "y"}}))
  told = watch(
    lambda: report_runs.make(runs / "a"),
    lambda: report_runs.make(runs / "b", algorithm="afl"),
  )
  assert len(told) == 2
  assert told[0].endswith("1 finished run, 1 not started")


def test_a_page_that_another_program_changed_is_left_alone(
  watch, tmp_path, page
):
  report_runs.make(tmp_path / "runs" / "a", is_finished=False)

  def change():
    page.write_text("mine")
    report_runs.make(tmp_path / "runs" / "b", seed=1)

  with pytest.raises(RunError, match="another program changed it"):
    watch(change)
  assert page.read_text() == "mine"
  with pytest.raises(RunError, match="exists already"):
    watch()
  assert page.read_text() == "mine"


def test_a_run_that_looks_damaged_for_a_moment_is_no_news(watch, tmp_path):
  path = report_runs.make(tmp_path / "runs" / "a", is_finished=False)
  table = path / "evaluations.csv"
  whole = table.read_text()

  def repair():
    table.write_text(whole)
    finish(path)

  told = watch(
    lambda: table.write_text("round\n1\n"),
    lambda: table.write_text("round\n1\n2\n"),
    lambda: table.write_text("round\n1\n2\n3\n"),
    repair,
  )
  # The second time it is, and once is enough.
  assert ["has no column" in text for text in told] == [False, True, False]


def test_a_run_that_stays_damaged_is_left_out(watch, tmp_path):
  runs = tmp_path / "runs"
  for name in ("afl", "term", "fedavg"):
    report_runs.make(runs / name, algorithm=name, is_finished=name != "fedavg")
  (runs / "afl" / "labels.csv").write_text("")
  told = watch(
    (runs / "term" / "metrics.csv").unlink,
    lambda: None,  # Nothing changes, but the damage is looked at again.
    lambda: finish(runs / "fedavg"),
  )
  assert "afl/labels.csv: is no table" in told[0]
  assert told[1].endswith("2 methods, 1 finished run, 1 unfinished")
  assert "term/metrics.csv: is missing" in told[2]
  assert told[3].endswith("1 task, 1 method, 1 finished run")
  assert len(told) == 4


def test_the_watch_rests_longer_than_it_works(watch, tmp_path, monkeypatch):
  report_runs.make(tmp_path / "runs" / "a", is_finished=False)
  times = iter([0.0, 2.0])
  monkeypatch.setattr(watch.clock, "monotonic", lambda: next(times))
  with pytest.raises(KeyboardInterrupt):
    watch(lambda: None, stop)
  # Nothing was written after the first pause: there was nothing new.
  assert watch.pauses == [18.0, 18.0]


def test_a_baseline_that_is_yet_to_come_is_waited_for(watch, tmp_path, page):
  report_runs.make(tmp_path / "runs" / "a", is_finished=False)

  def come():
    assert ">baseline<" not in page.read_text()
    report_runs.make(tmp_path / "runs" / "b", algorithm="afl")
    finish(tmp_path / "runs" / "a")

  watch(come, baseline="afl")
  assert ">baseline<" in page.read_text()
