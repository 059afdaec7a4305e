"""Gains of clients agree with scikit-learn and scipy, and with simulations."""

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn_metrics

from benchmarks import false_certainty
from tests.metrics import class_scores_test
from tff_fair.metrics import class_scores, gains

pytestmark = pytest.mark.pure

ERRORS = ("brier", "log_loss", "calibration_error")


def outputs(seed, number=60, num_classes=2, better=0.0):
  """Two models that see the same of the labels, but for noise of their own."""
  generator = np.random.default_rng(seed)
  labels = generator.integers(num_classes, size=number)
  labels[:num_classes] = range(num_classes)
  shared = generator.normal(0, 1, [number, num_classes])
  shared[np.arange(number), labels] += 1
  models = [shared + generator.normal(0, 0.7, shared.shape) for _ in range(2)]
  models[1][np.arange(number), labels] += better
  return gains.Outputs(labels, *models)


@pytest.mark.parametrize("name", class_scores.NAMES)
@pytest.mark.parametrize(("num_classes", "positive"), [(2, 1), (4, None)])
def test_gains_are_differences_of_scores(name, num_classes, positive):
  """By scikit-learn; of orders, by histograms."""
  found = outputs(0, num_classes=num_classes)
  before, after = (
    class_scores.value(
      name, class_scores_test.sums(found.labels, logits), positive
    )
    if name in class_scores.WITH_HISTOGRAM
    else class_scores_test.by_sklearn(name, found.labels, logits, positive)
    for logits in found[1:]
  )
  gain = gains.client_gain(name, found, positive=positive, draws=50)
  sign = -1 if name in ERRORS else 1
  assert gain.gain == pytest.approx(sign * (after - before), abs=1e-9)
  assert gain.low <= gain.gain <= gain.high
  value = gains.score(name, found.labels, found.before, positive)
  assert value == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("name", ["rmse", "mae", "r2"])
def test_gains_of_numbers(name):
  generator = np.random.default_rng(0)
  labels = generator.normal(50, 10, 40)
  models = [labels + generator.normal(0, s, 40) for s in (6, 5)]
  expected = {
    "rmse": lambda y, o: -np.sqrt(sklearn_metrics.mean_squared_error(y, o)),
    "mae": lambda y, o: -sklearn_metrics.mean_absolute_error(y, o),
    "r2": sklearn_metrics.r2_score,
  }[name]
  gain = gains.client_gain(name, gains.Outputs(labels, *models), draws=50)
  difference = expected(labels, models[1]) - expected(labels, models[0])
  assert gain.gain == pytest.approx(difference)
  assert gain.low < gain.gain < gain.high


def test_accuracies_have_the_exact_sign_test():
  labels = np.zeros(30, int)
  right, wrong = [1.0, 0.0], [0.0, 1.0]
  before = np.array([wrong] * 9 + [right] * 21)
  after = np.array([right] * 9 + [wrong] * 1 + [right] * 20)
  gain = gains.client_gain("accuracy", gains.Outputs(labels, before, after))
  assert gain.gain == pytest.approx(8 / 30)
  assert gain.p_value == scipy.stats.binomtest(9, 10).pvalue
  assert gain.low > 0
  same = gains.client_gain("accuracy", gains.Outputs(labels, before, before))
  assert same == (0, 0, 0, 1)


def test_the_exchange_test_is_the_sign_test_where_both_apply():
  """Of F1 of a class that all examples have, only the hits count."""
  labels = np.ones(40, int)
  generator = np.random.default_rng(1)
  models = generator.normal(0.3, 1, [2, 40, 1]) * [-1, 1]
  found = gains.Outputs(labels, *models)
  exact = gains.client_gain("accuracy", found).p_value
  drawn = gains.client_gain("recall", found, positive=1, draws=5000).p_value
  assert drawn == pytest.approx(exact, abs=0.03)


def test_a_better_model_is_told_from_another():
  for name in ("auc", "f1", "log_loss"):
    gain = gains.client_gain(
      name, outputs(2, number=150, better=2.0), positive=1, draws=500
    )
    assert gain.p_value < 0.01
    assert gain.low > 0


def test_a_client_without_a_score_has_no_gain():
  found = outputs(3)._replace(labels=np.zeros(60, int))
  for name in ("auc", "average_precision", "recall"):
    gain = gains.client_gain(name, found, positive=1, draws=50)
    assert np.isnan(gain).all()


@pytest.mark.parametrize("name", ["accuracy", "auc"])
def test_equally_good_models_are_seldom_told_apart(name):
  """A short run of the benchmark, which has 1,000 federations."""
  told, covered = false_certainty.gain_rates(
    name, 60, num_clients=5, sizes=(20, 30), draws=200
  )
  # 3 of 60 are expected at most; 9 have a probability of 0.3 %.
  assert told <= 8 / 60
  assert covered > 0.85
