import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from binaries import runs
from binaries.report_page import measures, methods, tables
from binaries.report_page.measures import Value, ranks
from tests.binaries import report_runs


def values(*means, decimals=2):
  return [Value(mean, None, decimals) for mean in means]


@pytest.mark.parametrize(
  ("means", "more_is_better", "expected"),
  [
    ([1, 2, 3], True, [None, 2, 1]),
    ([1, 2, 3], False, [1, 2, None]),
    ([1, 2, 3], None, [None] * 3),
    ([1], True, [None]),
    ([1, 1], True, [None, None]),  # Nobody is better.
    ([2, 1, 2, 1, 0], True, [1, 2, 1, 2, None]),
    ([1, 1.001, 0.5], True, [1, 1, 2]),  # They look the same.
    ([math.nan, 1, 2], True, [None, 2, 1]),
    ([math.inf, 1, 2], False, [None, 1, 2]),
    ([], True, []),
  ],
)
def test_the_best_and_second_best_are_those_that_are_shown(
  means, more_is_better, expected
):
  assert ranks(values(*means), more_is_better) == expected


def test_values_as_they_are_read():
  assert Value(-1234.5678, 0.005, 2).mean_text == "−1,234.57"
  assert Value(1, 0.005, 3).std_text == "0.005"
  assert Value(1, None, 2).std_text is None
  assert Value(math.nan, None, 2).mean_text == "–"
  assert Value(-math.inf, None, 2).mean_text == "−∞"


def test_over_seeds():
  value = measures.over_seeds([1.0, 2, 3])
  assert (value.mean, value.std) == (2, 1)
  assert measures.over_seeds([1.0]).std is None
  assert math.isnan(measures.over_seeds([1.0, math.nan]).mean)


@pytest.fixture
def task(tmp_path):
  for seed in (0, 1):
    report_runs.make(tmp_path / f"a{seed}", seed=seed, algorithm="fedavg")
  report_runs.make(tmp_path / "b", algorithm="<b>", skill=0.9)
  (found,) = methods.arrange(runs.find([tmp_path]))
  return found


def test_measures_are_those_of_the_last_evaluation_in_percent(task):
  fedavg = task.methods[0]
  for measure, column, scale in (
    (measures.ACCURACY[0], "accuracy/mean", 100),
    (measures.ACCURACY[1], "accuracy/std", 100),
    (measures.MORE_ACCURACY[1], "accuracy/variance", 100**2),
    (measures.UNIFORMITY_AND_LOSS[1], "accuracy/angle", 1),
    (measures.UNIFORMITY_AND_LOSS[-1], "loss/max", 1),
  ):
    last = [scale * run.evaluations[column].iloc[-1] for run in fedavg.runs]
    value = measure.of_method(fedavg)
    assert value.mean == pytest.approx(np.mean(last))
    assert value.std == pytest.approx(np.std(last, ddof=1))


def test_each_measure_of_a_run_has_a_column(task):
  shown = [
    m.column
    for m in (
      *measures.ACCURACY,
      *measures.MORE_ACCURACY,
      *measures.UNIFORMITY_AND_LOSS,
    )
  ]
  assert len(set(shown)) == len(shown)
  table = task.runs[0].evaluations
  assert set(shown) == {
    name for name in table if name not in ("round", "loss/std", "loss/weighted")
  }


def test_a_column_that_is_not_there_is_unknown(task):
  del task.runs[0].evaluations["accuracy/jain"]
  (jain,) = (m for m in measures.UNIFORMITY_AND_LOSS if "jain" in m.column)
  assert jain.of_method(task.methods[0]).mean_text == "–"


def test_a_table_has_what_sorting_and_screen_readers_need(task):
  columns = [
    ("Mean", [Value(1.5, 0.5, 2), Value(math.inf, None, 2)], True),
    ("Std", [Value(2.0, None, 2), Value(1.0, None, 2)], False),
  ]
  table = ET.fromstring(tables.draw("<caption>", task.methods, columns))
  heads = table.findall(".//thead//th")
  assert [h.get("scope") for h in heads] == ["col"] * 4
  assert [h.get("data-first") for h in heads] == [
    *("text", "ascending", "descending", "ascending")
  ]
  rows = table.findall(".//tbody/tr")
  assert [r.find("th").get("scope") for r in rows] == ["row", "row"]
  assert [[c.get("data-value") for c in row.findall("td")] for row in rows] == [
    ["2", "1.5", "2.0"],
    ["1", "Infinity", "1.0"],
  ]
  assert "".join(rows[0][2].itertext()) == "1.50 ± 0.50"
  assert "".join(rows[1][3].itertext()) == "1.00 (best)"
  assert rows[1].find("th").get("data-value") == "<b>"
  assert table.find(".//caption").text == "<caption>"
