"""Tests of the two groups of numbers."""

import numpy as np
import pytest

from tff_fair.label_correction import mixture


def reference(values, steps=1000):
  """EM from the halves around the middle of the range, in float64."""
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
  np.testing.assert_array_equal(mixture.is_upper(values), reference(values))


def test_unit_and_size_do_not_matter():
  rng = np.random.default_rng(0)
  values = np.concatenate([rng.normal(2, 0.2, 20), rng.normal(4, 0.2, 10)])
  expected = values > 3
  for scaled in (values, values * 1e200, values * 1e-200, values - 100):
    np.testing.assert_array_equal(mixture.is_upper(scaled), expected)


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
def test_hard_inputs(values, expected):
  found = mixture.is_upper(np.array(values))
  assert found.tolist() == expected


def test_a_wide_upper_group_takes_nobody_from_below():
  rng = np.random.default_rng(0)
  values = np.concatenate(
    [[-3.0], rng.normal(1, 0.01, 100), rng.normal(5, 3, 30)]
  )
  found = mixture.is_upper(values)
  assert not found[0]
  assert found[values > 4].all()
