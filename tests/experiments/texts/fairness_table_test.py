import re

import pytest

from tff_fair import metrics
from tff_fair.experiments.texts import fairness_table

ACCURACIES = [0.1, 0.5, 0.6, 0.8, 1.0]


def test_the_table_is_in_percent():
  table = fairness_table.fairness_table(metrics.fairness_summary(ACCURACIES))
  for title, value in (
    ("mean", "60.00"),
    ("median", "60.00"),
    ("std", "30.33"),
    ("variance", "920.00"),
    ("worst 30 %", "30.00"),
    ("best 20 %", "100.00"),
    ("relative std", "0.5055"),
    ("angle", "26.82°"),
  ):
    assert re.search(rf"(^|  ){title} +{value}( |$)", table, re.M), title


@pytest.mark.parametrize(
  "accuracies",
  [ACCURACIES, [1.0], [0.0], [0.0, 1.0], [1.0, *[0.0] * 99], [0.5] * 30],
)
def test_the_table_holds_all_in_aligned_columns_that_fit(accuracies):
  summary = metrics.fairness_summary(accuracies)
  lines = fairness_table.fairness_table(summary).splitlines()
  assert max(map(len, lines)) <= 80
  assert all(line == line.rstrip() for line in lines)
  starts = {
    tuple(line.index(title) for title in titles)
    for line, titles in zip(
      lines[:6],
      [
        ("mean", "worst  5 %", "best  5 %", "relative std"),
        ("median", "worst 10 %", "best 10 %", "angle"),
        ("std", "worst 20 %", "best 20 %", "KL"),
        ("variance", "worst 30 %", "best 30 %", "entropy"),
        ("min", "percentile 10"),
        ("max", "percentile 90"),
      ],
      strict=True,
    )
  }
  # In each line, the first two titles begin at the same places.
  assert len({start[:2] for start in starts}) == 1
  shown = [
    name for column in fairness_table._COLUMNS for name in column.values()
  ]
  assert sorted(shown) == sorted(summary)


def test_errors_are_in_units_of_the_label_with_r2_below():
  errors = [40.0, 50.0, 63.0]
  text = fairness_table.describe(
    {
      "num_clients": 3,
      "rounds": 7,
      "score": "rmse",
      "test_rmse": metrics.error_summary(errors),
      "test_r2": {"mean": 0.25, "percentile_50": 0.5, "min": -0.125},
    }
  )
  title, meaning, _, first, *_, last = text.splitlines()
  assert "in units of the label" in meaning
  assert title.endswith("3 clients after 7 rounds, in units of the label")
  # The worst clients have the largest errors.
  assert first.split() == [
    *("mean", "51.00", "worst", "5", "%", "63.00"),
    *("best", "5", "%", "40.00", "relative", "std", "0.1846"),
  ]
  assert last == "R²: mean 0.2500, median 0.5000, lowest -0.1250"


def test_the_gain_is_of_the_worst_clients():
  mine, theirs = (
    {"test_accuracy": metrics.fairness_summary(values)}
    for values in (ACCURACIES, [0.0, *ACCURACIES[1:]])
  )
  assert fairness_table.compare_worst_clients(mine, {"FedAvg": theirs}) == (
    "The worst 10 % of the clients get 10 %; with FedAvg 0 %."
  )
  errors = {"score": "rmse", "test_rmse": metrics.error_summary([40.0, 63.0])}
  assert fairness_table.compare_worst_clients(errors, {"FedAvg": errors}) == (
    "The worst 10 % of the clients have RMSE 63.00; with FedAvg 63.00."
  )


@pytest.mark.parametrize("score", ["accuracy", "rmse"])
def test_the_gain_is_over_the_better_baseline(score):
  run, one, other = (
    {"score": score, f"test_{score}": {"mean": 1.0, "worst_10": worst}}
    for worst in (0.3, 0.1, 0.2)
  )
  told = fairness_table.compare_worst_clients(run, {"one": one, "other": other})
  better = "“other”" if score == "accuracy" else "“one”"
  assert f"with the better of the baselines, {better}," in told
  assert told.count("; with") == 2
