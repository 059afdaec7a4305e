"""Tests of decision thresholds, against scikit-learn's scores."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from tff_fair.metrics import thresholds

_SCORES = {
  "accuracy": sklearn_metrics.accuracy_score,
  "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
  "f1": sklearn_metrics.f1_score,
}


@pytest.fixture(scope="module")
def examples():
  """Returns labels, an eighth of them positive, and log odds at bin centers."""
  generator = np.random.default_rng(5)
  y = generator.random(600) < 0.125
  log_odds = generator.normal(0, 1, 600) + 1.5 * y - 2.5
  return y, (np.floor(64 * log_odds) + 0.5) / 64


@pytest.mark.parametrize("goal", thresholds.GOALS)
def test_no_threshold_is_better(examples, goal):
  y, log_odds = examples
  probability = 1 / (1 + np.exp(-log_odds))
  chosen = thresholds.choose(goal, thresholds.histogram(y, log_odds))
  found = _SCORES[goal](y, probability >= chosen)
  others = [_SCORES[goal](y, probability >= cut) for cut in (*probability, 2.0)]
  assert found == pytest.approx(max(others), abs=1e-12)


@pytest.mark.parametrize("goal", thresholds.GOALS)
def test_scores_of_decisions(examples, goal):
  y, log_odds = examples
  decided = log_odds >= -1
  found = thresholds.score_of_counts(
    goal, y.sum(), (~y).sum(), (decided & y).sum(), (decided & ~y).sum()
  )
  assert found == pytest.approx(_SCORES[goal](y, decided))


def test_histograms_add_up_and_take_any_log_odds(examples):
  y, log_odds = examples
  whole = thresholds.histogram(y, log_odds)
  parts = [thresholds.histogram(y[k::3], log_odds[k::3]) for k in range(3)]
  np.testing.assert_array_equal(whole, sum(parts))
  extreme = thresholds.histogram([True, False, True], [np.inf, -np.inf, np.nan])
  assert extreme.sum(-1).tolist() == [1, 2]


def test_of_equally_good_thresholds_the_nearest_to_a_half():
  counts = thresholds.histogram([True, False], [5.0, -5.0])
  assert thresholds.choose("f1", counts) == 0.5
