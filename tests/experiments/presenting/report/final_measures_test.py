"""Tests of the measures at the end of runs, and of their tables."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from tests.experiments import report_runs
from tests.experiments.presenting.report.page_parts import task_of, words
from tff_fair.experiments.analysis.comparison_table import BEST, SECOND
from tff_fair.experiments.analysis.measures import MEASURES, Measure, Value
from tff_fair.experiments.presenting.report import final_measures, html_tables


@pytest.fixture
def task(tmp_path):
  for seed in (0, 1):
    report_runs.make(tmp_path / f"a{seed}", seed=seed, method="fedavg")
  report_runs.make(tmp_path / "b", method="<b>", skill=0.9)
  return task_of(tmp_path)


def test_measures_are_those_of_the_last_evaluation_in_percent(task):
  fedavg = task.methods[0]
  for name, column, scale in (
    ("mean", "accuracy/mean", 100),
    ("std", "accuracy/std", 100),
    ("variance", "accuracy/variance", 100**2),
    ("angle", "accuracy/angle", 1),
    ("loss_max", "loss/max", 1),
  ):
    last = [scale * run.evaluations[column].iloc[-1] for run in fedavg.runs]
    value = final_measures.of_method(task, fedavg, name)
    assert value.mean == pytest.approx(np.mean(last))
    assert value.value.std == pytest.approx(np.std(last, ddof=1))


@pytest.mark.parametrize(
  ("name", "values", "interval"),
  [
    ("mean", [0.01, 0.99], (0, 100)),
    ("loss_std", [0.1, 1.0], (0, 6.2678)),
    ("loss", [-1.0, -2.0], (-7.8531, 4.8531)),  # A loss may be below 0.
  ],
)
def test_an_interval_ends_where_the_measure_does(name, values, interval):
  found = final_measures.over_seeds(MEASURES[name], values).interval
  assert found == pytest.approx(interval, abs=1e-4)


def heads(task, section):
  root = ET.fromstring(section.markup(task))
  return [
    ["".join(head.itertext()) for head in table.findall(".//thead//th")][2:]
    for table in root.iter("table")
  ]


def test_each_measure_is_shown(task):
  titles = {
    title
    for table in heads(task, final_measures.build(task))
    for title in table
  }
  assert titles == {m.title.replace(" %", "\xa0%") for m in MEASURES.values()}


def test_a_tail_of_unknown_scores_has_no_size(task):
  for run in task.runs:
    scores = run.client_evaluations.assign(accuracy=math.nan)
    run.__dict__["client_evaluations"] = scores
  assert final_measures.tail_text(task, "worst_10") == ""
  assert "10 %:" not in final_measures.build(task).markup(task)


def test_where_clients_attack_the_others_have_a_table(task):
  assert len(heads(task, final_measures.build(task))) == 5
  run = task.methods[0].runs[0]
  honest = run.evaluations.add_prefix("honest/").drop(columns="honest/round")
  run.__dict__["evaluations"] = pd.concat([run.evaluations, honest / 2], axis=1)
  found = heads(task, final_measures.build(task))
  assert len(found) == 6
  assert found[0] == found[1]
  value = final_measures.of_method(task, task.methods[0], "mean", "honest/")
  assert math.isnan(value.mean)


def test_a_column_that_is_not_there_is_unknown(task):
  del task.runs[0].evaluations[MEASURES["jain"].column]
  value = final_measures.of_method(task, task.methods[0], "jain")
  assert math.isnan(value.mean)


def test_a_table_has_what_sorting_and_screen_readers_need(task):
  columns = [
    html_tables.column(
      Measure("Mean", True), [Value(1.5, 0.5), Value(math.inf, None)]
    ),
    html_tables.column(
      Measure("Std", False),
      [Value(-2.0, None), Value(-3.0, None)],
      [SECOND, BEST],
    ),
  ]
  drawn = html_tables.of_methods("<caption>", task.methods, columns)
  table = ET.fromstring(drawn.__html__())
  found = table.findall(".//thead//th")
  assert [h.get("scope") for h in found] == ["col"] * 4
  assert [h.get("data-first") for h in found] == [
    *("text", "ascending", "descending", "ascending")
  ]
  rows = table.findall(".//tbody/tr")
  assert [r.find("th").get("scope") for r in rows] == ["row", "row"]
  assert [[c.get("data-value") for c in row.findall("td")] for row in rows] == [
    ["2.0", "1.5", "-2.0"],
    ["1.0", "Infinity", "-3.0"],
  ]
  assert words(rows[0][2]) == "1.50 ± 0.50"
  assert words(rows[1][3]) == "−3.00 (best, or not separable from it)"
  assert words(rows[0][3]) == "−2.00 (second best)"
  assert rows[1].find("th").get("data-value") == "<b>"
  assert words(table.find(".//caption")) == "<caption>"
