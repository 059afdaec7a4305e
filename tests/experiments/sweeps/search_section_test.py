"""Tests of the report's section about searches."""

import dataclasses
import importlib.util
import json
import xml.etree.ElementTree as ET
from typing import Any

import pandas as pd
import pytest

from tests.experiments import run_folders
from tests.experiments.presenting.report.page_parts import words
from tff_fair import experiments
from tff_fair.experiments import Range, RunSpec
from tff_fair.experiments.presenting.report import search_section, task_runs
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.sweeps import optuna_study, study, trials
from tff_fair.experiments.sweeps.study import SearchSettings

SPEC = RunSpec(algorithm="adafed", total_rounds=3)
SPACE = {
  "client_learning_rate": Range(0.001, 1.0, is_logarithmic=True),
  "gamma": [0.1, 1.0],
}


_TEXTS = {"gamma": ["1", "2"], "rate": "0.1:1.0"}
_TRIAL: dict[str, Any] = {
  "number": 0,
  "settings": {"gamma": "1", "rate": "0.5"},
  "runs": ["run"],
}


def _with(**settings):
  return {**_TRIAL, "settings": {**_TRIAL["settings"], **settings}}


def built(path):
  """Returns the section as XML; None if it is empty."""
  (task,) = task_runs.arrange(discovery.find([path]))
  section = search_section.build(task)
  return ET.fromstring(section.markup(task)) if section.body else None


@pytest.mark.usefixtures("faked")
def test_the_page_shows_the_history_and_what_mattered(tmp_path):
  found = experiments.search(
    SPEC, SPACE, tmp_path, trials=14, pruner="median", progress=False
  )
  section = built(tmp_path)
  study = words(section)
  assert len([*section.iter("svg")]) == 1
  num_pruned = sum(t.outcome.state == "pruned" for t in found.trials)
  assert num_pruned
  assert f"14 trials by the sampler tpe, {14 - num_pruned} complete, " in study
  assert f"Best: trial {found.best[0].number} " in study
  rows = dict(map(words, row) for row in section.iter("tr"))
  del rows["Setting"]
  assert float(rows["client_learning_rate"]) > float(rows["hparam.gamma"])
  assert sum(map(float, rows.values())) == pytest.approx(100, abs=0.2)
  experiments.report(tmp_path, tmp_path / "page.html")
  assert "<h3>Search</h3>" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("faked")
def test_several_objectives_have_a_front(tmp_path, monkeypatch):
  experiments.search(
    SPEC, SPACE, tmp_path, trials=6, objective="mean,std", progress=False
  )
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  section = built(tmp_path)
  drawn = {svg.get("id") for svg in section.iter("svg")}
  assert {"t0-search0-mean", "t0-search0-std"} < drawn
  assert "Pareto front: trials " in words(section)
  assert "needs the package optuna" in words(section)


def test_runs_of_no_search_have_no_section(tmp_path):
  run_folders.make(tmp_path / "run")
  assert built(tmp_path) is None


@pytest.mark.parametrize(
  ("changes", "told"),
  [
    ({"space": {"batch_size": [1, 2]}}, "expected a text, found 1"),
    ({"name": None}, "expected a text, found None"),
    ({"trials": [{}]}, "number"),
    ({"trials": [{**_TRIAL, "number": "0"}]}, "the number of a trial, found"),
    ({"trials": [{**_TRIAL, "runs": [5]}]}, "expected a text, found 5"),
    ({"trials": [_TRIAL, {**_TRIAL, "runs": []}]}, "trial 0 names no run"),
    ({"trials": [{**_TRIAL, "settings": [1]}]}, ""),
    ({"trials": [{**_TRIAL, "settings": {}}]}, "trial 0 lacks gamma, rate"),
    ({"trials": [_with(gamma="3")]}, "trial 0 has gamma=3 (of 1,2)"),
    ({"trials": [_with(rate="3")]}, "trial 0 has rate=3 (of 0.1:1.0)"),
    ({"trials": [_with(rate="nan")]}, "trial 0 has rate=nan"),
    ({"trials": [_with(rate="much")]}, "much"),
    ({"trials": [_with(rate=0.5)]}, "expected a text, found 0.5"),
  ],
)
def test_a_damaged_record_leaves_its_search_out(tmp_path, changes, told):
  run_folders.make(tmp_path / "run")
  settings = dataclasses.asdict(SearchSettings(trials=1))
  study = {
    "name": "s",
    "method": "fedavg",
    "space": _TEXTS,
    "integers": [],
    "trials": [_TRIAL],
  }
  path = tmp_path / trials.RECORD_FILE
  for content in ({}, {"studies": [{**study, **changes}]}):
    path.write_text(json.dumps({"settings": settings, **content}))
    said = words(built(tmp_path))
    assert "A search is left out, because it is damaged: " in said
  assert told in said
  path.write_text(json.dumps({"settings": settings, "studies": [study]}))
  said = words(built(tmp_path))
  assert "it is damaged" not in said


def test_unseen_clients_do_not_decide(tmp_path):
  path = run_folders.make(tmp_path / "run", [(2, (0.5,) * 12)])
  table = pd.read_csv(path / "client_evaluations.csv")
  table["unseen"] = table["client_id"] > 8
  table.to_csv(path / "client_evaluations.csv", index=False)
  study = {"name": "s", "method": "fedavg", "space": _TEXTS, "integers": []}
  content = {
    "settings": dataclasses.asdict(SearchSettings(trials=1)),
    "studies": [{**study, "trials": [_TRIAL]}],
  }
  (tmp_path / trials.RECORD_FILE).write_text(json.dumps(content))
  assert "objectives over all clients" in words(built(tmp_path))


def test_a_search_that_has_just_begun_is_no_mistake(tmp_path, faked):
  faked.interrupted_at = 1
  with pytest.raises(KeyboardInterrupt):
    experiments.search(SPEC, SPACE, tmp_path, trials=6, progress=False)
  found = trials.read_record(tmp_path)
  (study,) = found.studies.values()
  told = trials.with_outcomes(tmp_path, found, study)
  assert [t.outcome.state for t in told] == ["complete", "running"]
  assert "1 complete" in words(built(tmp_path))


def test_the_importances_are_those_of_a_known_function():
  # If x and y are independent and uniform, 4/5 of the variance of x + y/2 is
  # due to x.
  known = dict.fromkeys("xy", study.Dimension(range=Range(0.0, 1.0, step=0.1)))
  told = [
    trials.Trial(
      11 * a + b,
      {"x": f"{a / 10}", "y": f"{b / 10}"},
      (),
      trials.Outcome(trials.COMPLETE, (a / 10 + b / 20,)),
    )
    for a in range(11)
    for b in range(11)
  ]
  settings = SearchSettings(trials=len(told))
  found = optuna_study.importances(known, settings, told, 0)
  assert found["x"] == pytest.approx(0.8, abs=0.03)
  assert found["y"] == pytest.approx(0.2, abs=0.03)
  assert optuna_study.importances(known, settings, told[:1], 0) == {}
