"""Tests of the intervals: Wilson's, and those of the bootstrap."""

import math

import numpy as np
import pytest
from scipy import optimize

from tff_fair import metrics
from tff_fair.metrics import intervals

Z = 1.959963984540054


def test_wilson_ends_are_where_the_score_test_rejects():
  for correct, count in ((7, 12), (1, 3), (499, 500)):
    a = correct / count
    (low,), (high,) = metrics.wilson_interval([a], [count])

    def score(p, a=a, count=count):
      return (a - p) / math.sqrt(p * (1 - p) / count)

    lower = optimize.brentq(lambda p: score(p) - Z, 1e-9, a)
    upper = optimize.brentq(lambda p: score(p) + Z, a, 1 - 1e-9)
    assert (low, high) == pytest.approx((lower, upper), abs=1e-9)


def test_wilson_at_the_ends():
  low, high = metrics.wilson_interval([0, 1, 0, 1], [1, 1, 1000, 1000])
  assert low[0] == 0
  assert high[1] == 1
  assert low[1] == pytest.approx(1 / (1 + Z**2))
  assert low[2] == 0
  assert high[2] == pytest.approx(Z**2 / (1000 + Z**2))
  assert ((low >= 0) & (low < high) & (high <= 1)).all()


def test_wilson_covers():
  # Enumerates all results: coverage over true accuracies is 95 % on average.
  count = 12
  correct = np.arange(count + 1)
  low, high = metrics.wilson_interval(correct / count, np.full(13, count))
  covered = []
  for p in np.linspace(0.05, 0.95, 181):
    chance = [
      math.comb(count, c) * p**c * (1 - p) ** (count - c) for c in correct
    ]
    covered.append(np.dot(chance, (low <= p) & (p <= high)))
  assert np.mean(covered) == pytest.approx(0.95, abs=0.01)
  assert min(covered) > 0.85


def test_the_mean_has_the_interval_of_a_sample_of_clients():
  rng = np.random.default_rng(0)
  count = rng.integers(5, 30, 400)
  accuracy = rng.binomial(count, rng.beta(8, 2, 400)) / count
  interval = metrics.fairness_intervals(accuracy, count, ["mean"])["mean"]
  # The measured accuracies already contain the noise of the examples.
  reach = 1.966 * accuracy.std(ddof=1) / math.sqrt(400)
  expected = (accuracy.mean() - reach, accuracy.mean() + reach)
  assert interval == pytest.approx(expected, abs=0.1 * reach)


@pytest.mark.parametrize("with_counts", [False, True])
def test_intervals_cover_the_spread_of_other_clients(monkeypatch, with_counts):
  monkeypatch.setattr(intervals, "_MAX_DRAWS", 200)
  names = ("std", "worst_10", "jain")

  def draw(rng, num_clients):
    count = rng.integers(6, 19, num_clients)
    return rng.binomial(count, rng.beta(8, 2, num_clients)) / count, count

  accuracy, _ = draw(np.random.default_rng(0), 200_000)
  truth = metrics.fairness_summary(accuracy)
  covered = []
  for seed in range(30):
    accuracy, count = draw(np.random.default_rng([1, seed]), 60)
    found = metrics.fairness_intervals(
      accuracy, count if with_counts else None, names, seed=seed
    )
    covered.append([found[n].low <= truth[n] <= found[n].high for n in names])
  # If the draws contained the noise twice, intervals would cover less.
  assert np.mean(covered, axis=0).min() > 0.82


def test_noise_is_not_counted_twice():
  # The whole spread is noise, so draws must spread like measured accuracies.
  rng = np.random.default_rng(2)
  count = np.full(500, 10)
  accuracy = rng.binomial(count, 0.7) / count
  low, high = metrics.fairness_intervals(accuracy, count, ["std"])["std"]
  assert low < accuracy.std() < high
  assert high - low < 0.05


def test_without_examples_it_is_a_bootstrap_of_clients():
  rng = np.random.default_rng(3)
  errors = rng.gamma(2.0, 10.0, 300)
  statistics = {"mean": lambda v, w: np.asarray((v * w).sum() / w.sum())}
  low, high = metrics.bootstrap_intervals(statistics, errors)["mean"]
  reach = 1.968 * errors.std(ddof=1) / math.sqrt(300)
  assert (low, high) == pytest.approx(
    (errors.mean() - reach, errors.mean() + reach), abs=0.1 * reach
  )


def test_bounds_and_seeds():
  accuracy, count = [0.0, 1.0, 1.0], [2, 3, 4]
  names = ("mean", "std", "jain", "angle")
  found = metrics.fairness_intervals(accuracy, count, names)
  assert found == metrics.fairness_intervals(accuracy, count, names)
  assert list(found) == list(names)
  assert all(0 <= interval.low <= interval.high for interval in found.values())
  assert found["jain"].high <= 1 < found["angle"].high <= 90
  assert found["std"].high <= 0.5


def test_hard_cases():
  one = metrics.fairness_intervals([0.5], [4], ["std"])["std"]
  assert all(map(math.isnan, one))
  same = metrics.fairness_intervals([1.0, 1.0, 1.0], [4, 4, 4], ["std"])["std"]
  assert all(map(math.isnan, same))  # Unseen clients may differ.
  singles = metrics.fairness_intervals([0, 1, 1, 0], [1] * 4, ["mean"])["mean"]
  assert singles.low < 0.5 < singles.high
  statistics = {"mean": lambda v, w: np.asarray((v * w).sum() / w.sum())}
  infinite = metrics.bootstrap_intervals(statistics, [1.0, math.inf])["mean"]
  assert math.isnan(infinite.low)


@pytest.mark.parametrize(
  ("arguments", "text"),
  [
    (([0.5], [2], ["mode"]), "'mode'"),
    (([1.5], [2]), "accuracies"),
    (([0.5], [0]), "num_examples"),
  ],
)
def test_bad_arguments_are_named(arguments, text):
  with pytest.raises(ValueError, match=text):
    metrics.fairness_intervals(*arguments)


def test_a_confidence_beyond_the_range_is_named():
  with pytest.raises(ValueError, match="confidence"):
    metrics.wilson_interval([0.5], [2], confidence=1)
