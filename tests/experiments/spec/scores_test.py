"""Tests of scores: their names in texts, and the decimals of errors."""

import math

import numpy as np
import pytest

from tff_fair import metrics
from tff_fair.experiments.spec import scores, settings
from tff_fair.experiments.spec.scores import ACCURACY, RMSE


@pytest.mark.parametrize(
  ("smallest", "digits"),
  [
    (53.8, 2),
    (1.0, 3),
    (9.99, 3),
    (0.0051, 6),
    (51_234.0, 0),
    (1e-30, 8),
    (0.0, 4),
    (math.inf, 4),
    (math.nan, 4),
  ],
)
def test_errors_have_the_decimals_that_their_size_needs(smallest, digits):
  assert RMSE.with_fitting_digits(smallest).digits == digits


def test_a_line_tells_the_unit():
  errors = metrics.error_summary([50.0, 60.0])
  assert RMSE.describe(errors) == "RMSE 55, std 5, worst 10% 60"
  assert RMSE.text(0.00123456) == "0.001235"
  accuracies = metrics.fairness_summary([0.5, 0.75])
  assert (
    ACCURACY.describe(accuracies)
    == "accuracy 62.5%, std 12.5%, worst 10% 50.0%"
  )


def test_better_is_higher_or_lower_and_never_no_number():
  assert ACCURACY.is_better(0.5, 0.4)
  assert RMSE.is_better(0.4, 0.5)
  for score in (ACCURACY, RMSE):
    assert not score.is_better(0.5, 0.5)
    assert not score.is_better(math.nan, 0.5)


def test_clients_without_r2_do_not_count():
  found = scores.summarize_extra(np.array([0.5, math.nan, -3.0, 0.25]))
  assert found == pytest.approx(
    {
      "mean": -0.75,
      "std": np.std([0.5, -3.0, 0.25]),
      "min": -3.0,
      "max": 0.5,
      "percentile_50": 0.25,
      "left_out": 1,
    }
  )


@pytest.mark.parametrize("values", [[], [math.nan, math.nan]])
def test_without_any_r2_there_is_no_number(values):
  found = scores.summarize_extra(np.array(values))
  assert found.pop("left_out") == len(values)
  assert all(math.isnan(value) for value in found.values())


def test_r2_of_a_model_that_diverged_is_minus_infinity():
  found = scores.summarize_extra(np.array([0.5, -math.inf]))
  assert (found["mean"], found["min"], found["max"]) == (
    -math.inf,
    -math.inf,
    0.5,
  )


def test_settings_name_all_scores():
  assert tuple(scores.BY_NAME) == settings.federation.SCORES
  for name, score in scores.BY_NAME.items():
    assert score.name == name


def test_statistics_of_values_below_0_are_those_of_numpy():
  r2 = scores.BY_NAME["r2"]
  values = np.array([0.5, -3.0, 0.25, -0.5, 0.9])
  found = r2.summarize(values)
  assert (found["min"], found["max"]) == (-3.0, 0.9)
  assert found["mean"] == pytest.approx(values.mean())
  assert found["std"] == pytest.approx(values.std())
  assert found["worst_20"] == -3.0
  assert found["percentile_90"] == pytest.approx(np.percentile(values, 90))
  assert math.isnan(found["jain"])
  diverged = r2.summarize([0.5, -math.inf, 0.25, -0.5, 0.9])
  assert (diverged["mean"], diverged["worst_20"]) == (-math.inf, -math.inf)
  assert (diverged["max"], diverged["best_20"]) == (0.9, 0.9)
  assert diverged["percentile_50"] == 0.25
  assert diverged["percentile_90"] == pytest.approx(0.74)


def test_changes_of_values_below_0_are_positive_where_they_rise():
  r2 = scores.BY_NAME["r2"]
  found = r2.compare([0.5, -1.0], [0.25, -0.5])
  assert found["suffering_improved_share"] == 1
  assert found["suffering_mean_change"] == 0.5
  assert found["well_performing_mean_change"] == -0.25
  assert found["mean_change"] == 0.125


@pytest.mark.parametrize("name", ["accuracy", "auc", "rmse", "r2"])
def test_intervals_end_at_what_is_possible(name):
  score, chosen = scores.BY_NAME[name], ("mean", "std", "worst_10", "jain")
  found = score.intervals(np.array([0.0, 0.9, 1.0]), None, chosen)
  for statistic, interval in found.items():
    low, high = score.bounds(statistic)
    assert low <= interval.low <= interval.high <= high, statistic
  assert found["std"].low == 0
  if name != "r2":
    assert found["jain"].high == 1
