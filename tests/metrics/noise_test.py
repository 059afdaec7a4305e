"""Tests of the noise of small test sets."""

import math

import numpy as np
import pytest

from tff_fair import metrics


def by_the_definition(accuracies, num_examples, shares):
  """Returns the variance and the noise; every client needs several examples."""
  mean = math.fsum(s * a for s, a in zip(shares, accuracies, strict=True))
  variance = math.fsum(
    s * (a - mean) ** 2 for s, a in zip(shares, accuracies, strict=True)
  )
  noise = math.fsum(
    s * (1 - s) * a * (1 - a) / (n - 1)
    for s, a, n in zip(shares, accuracies, num_examples, strict=True)
  )
  return variance, noise


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_clients", [1, 2, 7, 300])
def test_agrees_with_the_definition(num_clients, weighted):
  rng = np.random.default_rng(num_clients)
  count = rng.integers(2, 40, num_clients)
  accuracy = rng.binomial(count, 0.7) / count
  shares = count / count.sum() if weighted else [1 / num_clients] * num_clients
  found = metrics.sampling_noise(accuracy, count, weighted=weighted)
  assert (found.variance, found.expected) == pytest.approx(
    by_the_definition(accuracy, count, shares), rel=1e-12, abs=1e-15
  )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_true_variance_is_estimated_without_bias(weighted):
  rng = np.random.default_rng(0)
  count = np.array([2, 3, 5, 12, 12, 40, 7])
  p = np.array([0.3, 0.9, 0.5, 0.8, 0.95, 0.7, 0.6])
  shares = count / count.sum() if weighted else np.full(7, 1 / 7)
  truth = (shares * (p - (shares * p).sum()) ** 2).sum()
  draws = rng.binomial(count, p, [3000, 7]) / count
  found = [metrics.sampling_noise(a, count, weighted=weighted) for a in draws]
  estimates = np.array([f.variance - f.expected for f in found])
  error = estimates.std() / math.sqrt(len(estimates))
  assert abs(estimates.mean() - truth) < 4 * error
  # The noise is many times the error, so the test is sensitive enough.
  assert np.mean([f.expected for f in found]) > 20 * error


def test_clients_with_one_example_get_the_noise_of_the_others():
  rng = np.random.default_rng(1)
  count = np.array([1] * 30 + [10] * 30)
  draws = rng.binomial(count, 0.7, [1000, 60]) / count
  # All clients have the same true accuracy, so the whole spread is noise.
  found = [metrics.sampling_noise(a, count) for a in draws]
  surplus = np.array([f.variance - f.expected for f in found])
  assert abs(surplus.mean()) < 4 * surplus.std() / math.sqrt(len(found))


def test_by_hand():
  found = metrics.sampling_noise([0.5, 1.0], [2, 2])
  # The variance is 1/16, the noise 1/2 * 1/2 * (1/4 + 0).
  assert (found.variance, found.expected) == (0.0625, 0.0625)
  assert found.share == 1
  assert (found.std, found.true_std) == (0.25, 0)


def test_share_is_at_most_all_and_unknown_without_a_spread():
  assert metrics.sampling_noise([0.5, 0.6], [2, 5]).share == 1
  assert metrics.sampling_noise([0.5, 0.5], [2, 4]).share is None
  assert metrics.sampling_noise([0.5], [10]).share is None
  assert metrics.sampling_noise([0.0, 1.0], [10, 10]).share == 0


def test_one_example_for_each_client_tells_nothing():
  assert metrics.sampling_noise([0, 1, 1], [1, 1, 1]) is None


@pytest.mark.parametrize(
  ("accuracies", "num_examples", "text"),
  [
    ([0.5], [0.5], "num_examples .*1"),
    ([0.5], [0], "num_examples .*0"),
    ([0.5, 0.5], [3], "client"),
    ([float("nan")], [3], "accuracies"),
    ([], [], "none"),
  ],
)
def test_bad_arguments_are_named(accuracies, num_examples, text):
  with pytest.raises(ValueError, match=text):
    metrics.sampling_noise(accuracies, num_examples)


def test_shares_of_examples_are_known_in_float32():
  rng = np.random.default_rng(2)
  count = rng.integers(1, 100_000, 5000)
  accuracy = (rng.binomial(count, 0.7) / count).astype(np.float32)
  assert metrics.are_shares_of_examples(accuracy, count)


def test_a_mean_of_something_else_is_no_share_of_examples():
  assert not metrics.are_shares_of_examples([0.5, 0.512], [10, 10])


def test_p_value_is_right_where_all_are_served_equally_well():
  rng = np.random.default_rng(3)
  count = np.array([3, 5, 8, 12, 20, 40])
  draws = rng.binomial(count, 0.8, [300, 6]) / count
  p_values = np.array(
    [metrics.equality_p_value(a, count, seed=s) for s, a in enumerate(draws)]
  )
  # Of 300 p-values, about 30 are below 0.1: 5 standard errors are 26.
  assert 0.02 < (p_values <= 0.1).mean() < 0.19
  assert 0.35 < (p_values <= 0.5).mean() < 0.65


def test_p_value_sees_a_difference():
  assert metrics.equality_p_value([0.2, 0.9, 0.9], [50, 50, 50]) < 0.01
  assert metrics.equality_p_value([0.9, 0.9, 0.9], [50, 50, 50]) == 1
  assert metrics.equality_p_value([1.0, 1.0], [50, 50]) == 1
