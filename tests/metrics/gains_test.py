"""Tests of clients' gains against scikit-learn, scipy and simulations."""

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn_metrics

from benchmarks import gain_intervals
from tests.metrics import class_scores_test
from tff_fair.metrics import class_scores, gains

pytestmark = pytest.mark.pure

ERRORS = ("brier", "log_loss", "calibration_error")


def outputs(seed, number=60, num_classes=2, better=0.0):
  """Returns outputs of two models with a common signal and separate noise."""
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
  """Compares with scikit-learn, or ranking scores with those of histograms."""
  found = outputs(0, num_classes=num_classes)
  before, after = (
    class_scores.score(
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
  assert (same.gain, same.p_value) == (0, 1)
  assert same.low == -same.high < 0


def test_the_exchange_test_is_the_sign_test_where_both_apply():
  """If all examples have one class, its recall equals the accuracy."""
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
def test_exchangeable_models_are_seldom_told_apart(name):
  """A short run of `benchmarks.gain_intervals --of=tests`."""
  draw = gain_intervals.exchangeable_draws(name)
  told = gain_intervals.rejection_rate(
    name, draw, 30, sizes=(20, 30), draws=200
  )
  # At most 1.5 of 30 federations are expected; 6 have a probability of 0.3 %.
  assert told <= 5 / 30


# Intervals.


def of_counts(size, gained, lost):
  """Returns the gain for given numbers of newly right and wrong examples."""
  right = np.zeros([2, size, 2])
  right[..., 0] = 1
  right[0, :gained] = right[1, size - lost :] = [0, 1]
  return gains.client_gain(
    "accuracy", gains.Outputs(np.zeros(size, int), *right)
  )


@pytest.mark.parametrize("size", gain_intervals.SIZES)
@pytest.mark.parametrize("gain", gain_intervals.GAINS)
def test_intervals_of_accuracies_cover(size, gain):
  coverage, width = gain_intervals.accuracy_coverage(size, gain)
  assert coverage >= 0.94
  assert width < 2.6 / np.sqrt(size)


@pytest.mark.parametrize(
  ("size", "gained", "lost"),
  [(1, 0, 0), (1, 1, 0), (3, 0, 0), (3, 0, 3), (12, 4, 1), (60, 20, 20)],
)
def test_intervals_of_accuracies_are_walds_with_one_in_each_cell(
  size, gained, lost
):
  found = of_counts(size, gained, lost)
  # An independent reference: the variance of a mean of values 1, 0 and -1.
  values = [1.0] * (gained + 1) + [-1.0] * (lost + 1)
  values += [0.0] * (size - gained - lost + 2)
  middle = np.mean(values)
  reach = scipy.stats.norm.ppf(0.975) * np.std(values) / np.sqrt(len(values))
  gain = (gained - lost) / size
  assert found.gain == pytest.approx(gain)
  assert found.low == pytest.approx(max(-1, min(gain, middle - reach)))
  assert found.high == pytest.approx(min(1, max(gain, middle + reach)))


@pytest.mark.parametrize("name", ["rmse", "auc", "log_loss", "f1"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_too_few_examples_have_no_interval(name, size):
  kind = gain_intervals.KINDS["alike"]
  drawn = gain_intervals.outputs(
    np.random.default_rng(3), size, kind, 0.0, of_numbers=name == "rmse"
  )
  if name != "rmse":
    drawn.labels[0] = 1
    drawn.labels[1:] = 0
  found = gains.client_gain(name, drawn, positive=1, draws=50)
  assert np.isnan([found.low, found.high]).all()
  if name == "rmse":
    assert np.isfinite([found.gain, found.p_value]).all()


def test_a_class_with_one_example_has_no_interval():
  found = outputs(3, number=30)
  found.labels[:] = 0
  found.labels[4] = 1
  gain = gains.client_gain("auc", found, positive=1, draws=50)
  assert np.isfinite(gain.gain)
  assert np.isnan(gain.low)


def test_equal_numbers_have_no_interval():
  labels = np.arange(10.0)
  found = gains.Outputs(labels, labels + 1, labels - 1)
  gain = gains.client_gain("rmse", found, draws=50)
  assert (gain.gain, gain.p_value) == (0, 1)
  assert np.isnan(gain.low)


def test_intervals_of_means_are_those_of_the_jackknife():
  generator = np.random.default_rng(4)
  labels = generator.normal(size=20)
  models = labels + generator.normal(size=[2, 20])
  found = gains.client_gain("mae", gains.Outputs(labels, *models), draws=50)
  # The jackknife variance of a mean of n values is their variance divided by n.
  change = np.abs(models[0] - labels) - np.abs(models[1] - labels)
  reach = scipy.stats.t.ppf(0.975, 19 / 3) * scipy.stats.sem(change)
  assert found.high - found.gain == pytest.approx(reach)
  assert found.gain - found.low == pytest.approx(reach)


@pytest.mark.parametrize(
  ("name", "kind"),
  [("auc", "alike"), ("f1", "good"), ("log_loss", "good"), ("rmse", "alike")],
)
def test_intervals_of_scores_cover(name, kind):
  """A short run of `benchmarks.gain_intervals --of=scores`."""
  coverage, share = gain_intervals.score_coverage(
    name, 20, gain_intervals.KINDS[kind], 0.4, 200
  )
  # If the coverage is 92 %, that of 200 clients is below 88 % with probability
  # 2 %.
  assert coverage >= 0.88
  assert share > 0.9


def test_many_examples_are_left_out_in_groups():
  found = outputs(5, number=3000)
  gain = gains.client_gain("brier", found, draws=20)
  p = [np.exp(z - np.logaddexp.reduce(z, 1)[:, None])[:, 1] for z in found[1:]]
  change = (p[0] - found.labels) ** 2 - (p[1] - found.labels) ** 2
  reach = 1.96 * scipy.stats.sem(change)
  assert gain.high - gain.gain == pytest.approx(reach, rel=0.1)
