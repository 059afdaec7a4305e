"""Tests of noisy clients, noise levels and new labels."""

import math

import numpy as np
import pytest

from tff_fair.label_correction import noisy_labels


def test_clients_of_high_dimension_are_noisy():
  dimensions = np.array([2.0, 2.1, 5.0, 1.9, 5.2, np.nan, 2.05])
  assert np.flatnonzero(noisy_labels.noisy_clients(dimensions)).tolist() == [
    2,
    4,
  ]
  assert not noisy_labels.noisy_clients(np.array([7.0])).any()
  assert not noisy_labels.noisy_clients(np.full(5, 3.0)).any()


def test_losses_are_the_cross_entropy():
  probabilities = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]], np.float32)
  found = noisy_labels.losses(probabilities, np.array([1, 1], np.int32))
  np.testing.assert_allclose(found, [-math.log(0.2), 0], rtol=1e-6)
  wrong = noisy_labels.losses(probabilities, np.array([0, 0], np.int32))
  assert np.isfinite(wrong).all()
  assert wrong[1] > 80
  nothing = noisy_labels.losses(np.zeros([0, 3]), np.zeros(0, np.int32))
  assert nothing.shape == (0,)


def test_the_noise_level_is_the_share_of_large_losses():
  rng = np.random.default_rng(0)
  example_losses = np.concatenate(
    [rng.normal(0.2, 0.05, 70), rng.normal(3, 0.3, 30)]
  )
  assert noisy_labels.noise_level(example_losses) == pytest.approx(0.3)
  assert noisy_labels.noise_level(np.zeros(0)) == 0
  assert noisy_labels.noise_level(np.ones(9)) == 0


def test_the_proximal_weight_is_twice_beta_times_the_level():
  found = noisy_labels.proximal_weights(np.array([0.0, 0.3]), 5.0)
  np.testing.assert_allclose(found, [0, 3])
  assert found.dtype == np.float32


def test_suspects_are_the_largest_losses():
  example_losses = np.array([0.1, 5.0, 2.0, np.nan, 2.0, 3.0, 0.2, 0.3])
  found = noisy_labels.suspects(example_losses, 0.75, 0.5)
  assert np.flatnonzero(found).tolist() == [1, 2, 5]  # The first of a tie.
  assert noisy_labels.suspects(np.ones(100), 0.29, 1.0).sum() == 29
  assert not noisy_labels.suspects(example_losses, 0.0, 1.0).any()
  everyone = noisy_labels.suspects(example_losses, 1.0, 1.0)
  assert everyone.tolist() == [True] * 3 + [False] + [True] * 4


def test_confident_predictions_become_labels():
  labels = np.array([0, 1, 2, 0, 1], np.int32)
  probabilities = np.array(
    [
      [0.1, 0.8, 0.1],
      [0.5, 0.3, 0.2],
      [0.4, 0.4, 0.2],
      [np.nan, np.nan, np.nan],
      [0.0, 0.0, 1.0],
    ]
  )
  found = noisy_labels.relabel(labels, probabilities, 0.5)
  assert found.tolist() == [1, 0, 2, 0, 2]
  assert found.dtype == np.int32
  among = np.array([True, False, True, True, False])
  found = noisy_labels.relabel(labels, probabilities, 0.5, among)
  assert found.tolist() == [1, 1, 2, 0, 1]
  nothing = noisy_labels.relabel(labels[:0], probabilities[:0], 0.5)
  assert nothing.shape == (0,)


def test_labels_agree_with_a_loop_over_examples():
  rng = np.random.default_rng(3)
  labels = rng.integers(4, size=200).astype(np.int32)
  probabilities = rng.dirichlet(np.full(4, 0.4), 200)
  example_losses = noisy_labels.losses(probabilities, labels)
  level, share, confidence = 0.4, 0.5, 0.7
  expected = labels.copy()
  by_loss = sorted(
    range(200), key=lambda i: -math.log(probabilities[i][labels[i]])
  )
  for i in by_loss[::-1][: int(200 * level * share)]:
    best = max(range(4), key=lambda c: probabilities[i][c])
    if probabilities[i][best] >= confidence:
      expected[i] = best
  found = noisy_labels.relabel(
    labels,
    probabilities,
    confidence,
    noisy_labels.suspects(example_losses, level, share),
  )
  np.testing.assert_array_equal(found, expected)
  assert (found != labels).sum() > 10


# Tests of local intrinsic dimensions.


def dimensions_by_formula(points, k):
  """Returns the dimensions by the formula, example by example."""
  found = []
  for i, x in enumerate(points):
    radii = sorted(
      math.dist(x, other) for j, other in enumerate(points) if j != i
    )[:k]
    if radii[0] == 0:
      found.append(0.0)
      continue
    mean = sum(math.log(r / radii[-1]) for r in radii) / len(radii)
    found.append(-1 / mean)
  return np.array(found)


def distributions(n, classes=4, seed=0):
  rng = np.random.default_rng(seed)
  return rng.dirichlet(np.ones(classes), n).astype(np.float32)


@pytest.mark.parametrize(("n", "k"), [(40, 20), (300, 20), (9, 5), (7, 20)])
def test_dimensions_are_those_of_the_formula(n, k):
  points = distributions(n)
  found = noisy_labels.local_dimensions(points, k)
  expected = dimensions_by_formula(points.astype(np.float64), min(k, n - 1))
  np.testing.assert_allclose(found, expected, rtol=1e-12)
  assert noisy_labels.mean_dimension(points, k) == pytest.approx(
    expected.mean()
  )


def test_points_on_a_line_have_one_dimension_and_in_a_cube_three():
  rng = np.random.default_rng(1)
  line = np.outer(rng.random(2000), [0.3, 0.4, 0.5])
  assert noisy_labels.mean_dimension(line) == pytest.approx(1, rel=0.15)
  assert noisy_labels.mean_dimension(rng.random([2000, 3])) == pytest.approx(
    3, rel=0.15
  )


def test_duplicates_have_dimension_zero():
  points = np.concatenate([distributions(30), distributions(30)[:2]])
  found = noisy_labels.local_dimensions(points)
  np.testing.assert_array_equal(
    found == 0, dimensions_by_formula(points, 20) == 0
  )
  assert list(np.flatnonzero(found == 0)) == [0, 1, 30, 31]
  same = np.full([25, 3], 1 / 3)
  np.testing.assert_array_equal(noisy_labels.local_dimensions(same), 0)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_points_have_no_estimate(n):
  assert np.isnan(noisy_labels.local_dimensions(distributions(n))).all()
  assert math.isnan(noisy_labels.mean_dimension(distributions(n)))


def test_equal_distances_have_no_estimate_and_the_mean_leaves_them_out():
  corners = np.eye(4)  # All sqrt(2) apart.
  assert np.isnan(noisy_labels.local_dimensions(corners)).all()
  points = np.concatenate([corners[:3], [[0.9, 0.05, 0.05, 0]]])
  found = noisy_labels.local_dimensions(points, 2)
  assert noisy_labels.mean_dimension(points, 2) == pytest.approx(
    np.nanmean(found)
  )


def test_predictions_that_are_not_finite_have_no_estimate():
  points = distributions(30)
  points[3, 1] = np.nan
  assert math.isnan(noisy_labels.mean_dimension(points))


# Tests of dividing numbers into two groups.


def groups_by_em(values, steps=1000):
  """Runs EM in float64, started from the two halves of the range."""
  x = np.asarray(values, np.float64)
  x = (x - x.mean()) / x.std()
  shares = (x > (x.min() + x.max()) / 2).astype(np.float64)
  for _ in range(steps):
    weights = np.array([1 - shares.mean(), shares.mean()])
    means = np.array([(1 - shares) @ x, shares @ x]) / (weights * len(x))
    variances = (
      np.array(
        [(1 - shares) @ (x - means[0]) ** 2, shares @ (x - means[1]) ** 2]
      )
      / (weights * len(x))
      + 1e-6
    )
    squares = (x[:, np.newaxis] - means) ** 2 / variances
    densities = weights / np.sqrt(variances) * np.exp(-squares / 2)
    shares = densities[:, 1] / densities.sum(axis=1)
  return shares > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_an_independent_em(seed):
  rng = np.random.default_rng(seed)
  low = rng.normal(0.3, 0.1, 60)
  values = np.concatenate([low, rng.normal(1.5, 0.3, 25)])
  rng.shuffle(values)
  np.testing.assert_array_equal(
    noisy_labels.is_in_upper_group(values), groups_by_em(values)
  )


def test_unit_and_size_do_not_matter():
  rng = np.random.default_rng(0)
  values = np.concatenate([rng.normal(2, 0.2, 20), rng.normal(4, 0.2, 10)])
  expected = values > 3
  for scaled in (values, values * 1e200, values * 1e-200, values - 100):
    np.testing.assert_array_equal(
      noisy_labels.is_in_upper_group(scaled), expected
    )


@pytest.mark.parametrize(
  ("values", "expected"),
  [
    ([], []),
    ([3.0], [False]),
    ([2.0, 2.0, 2.0], [False] * 3),
    ([1.0, 2.0], [False, True]),
    ([1.0, 1.0, 1.0, 5.0], [False, False, False, True]),
    ([1.0, 1.0, 5.0, 5.0], [False, False, True, True]),
    ([np.nan, np.nan], [False, False]),
    ([np.nan, 1.0, 9.0], [False, False, True]),
    ([np.inf, 1.0, 1.0], [True, False, False]),
    ([5.0, np.inf, -np.inf], [False, True, False]),
  ],
)
def test_groups_of_hard_inputs(values, expected):
  found = noisy_labels.is_in_upper_group(np.array(values))
  assert found.tolist() == expected


def test_a_wide_upper_group_takes_no_number_from_below():
  rng = np.random.default_rng(0)
  values = np.concatenate(
    [[-3.0], rng.normal(1, 0.01, 100), rng.normal(5, 3, 30)]
  )
  found = noisy_labels.is_in_upper_group(values)
  assert not found[0]
  assert found[values > 4].all()
