"""Tests of FedMGDA+'s rule: optimality, bounds on lambda, common descent."""

import numpy as np
import pytest

from tests.methods import cohorts
from tff_fair.methods import fedmgda_plus


def solve(updates, num_examples=None, *, epsilon=0.1, normalize=True):
  """Returns lambda, the points g that lambda combines, d, and measurements."""
  rule = fedmgda_plus.FedMgdaPlusRule(epsilon=epsilon, normalize=normalize)
  cohort = cohorts.make(updates, num_examples=num_examples)
  c = cohorts.coefficients(rule, cohort)
  norms = np.linalg.norm(updates, axis=1)
  scale = norms if normalize else np.ones_like(norms)
  points = np.divide(
    updates, scale[:, np.newaxis], where=scale[:, np.newaxis] > 0
  )
  points[scale == 0] = 0
  return c * scale, points, c @ updates, cohorts.measurements(rule, cohort)


settings = pytest.mark.parametrize("normalize", [True, False])


@settings
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1])
@pytest.mark.parametrize(("m", "d"), [(3, 9), (20, 50), (20, 6)])
def test_no_feasible_step_makes_the_direction_shorter(m, d, epsilon, normalize):
  # Optimality: <d, g_j - g_i> >= 0 wherever weight may move from i to j.
  updates, _, n = cohorts.random(m, d, seed=m)
  share, points, direction, _ = solve(
    updates, n, epsilon=epsilon, normalize=normalize
  )
  p = n / n.sum()
  lower, upper = np.maximum(p - epsilon, 0), np.minimum(p + epsilon, 1)
  assert np.all(share >= lower - 1e-12)
  assert np.all(share <= upper + 1e-12)
  assert share.sum() == pytest.approx(1, abs=1e-12)
  slope = points @ direction
  may_fall, may_rise = share > lower + 1e-5, share < upper - 1e-5
  if may_fall.any() and may_rise.any():
    scale = np.max(np.sum(points**2, axis=1))
    assert slope[may_rise].min() >= slope[may_fall].max() - 1e-5 * scale


@pytest.mark.parametrize("m", [50, 200])
def test_gap_of_large_singular_cohorts(m):
  updates, _, n = cohorts.random(m // 2, d=m // 4, seed=m)
  twice = np.concatenate([updates, updates])
  for normalize in (True, False):
    share, _, _, reported = solve(
      twice, np.concatenate([n, n]), epsilon=0.5, normalize=normalize
    )
    assert 0 <= reported["relative_duality_gap"] <= 1e-6
    np.testing.assert_allclose(share[: m // 2], share[m // 2 :], atol=1e-5)


@settings
def test_epsilon_of_zero_keeps_the_shares(normalize):
  updates, _, n = cohorts.random(6, d=9)
  share, _, _, reported = solve(updates, n, epsilon=0, normalize=normalize)
  np.testing.assert_allclose(share, n / n.sum(), rtol=1e-12)
  assert reported["lambda_min"] == pytest.approx(min(n) / n.sum())
  assert reported["lambda_max"] == pytest.approx(max(n) / n.sum())


def test_norms_do_not_matter_with_normalization():
  updates, _, n = cohorts.random(5, d=9)
  scale = np.array([1e30, 1, 1e-30, 1e-3, 1e8])[:, np.newaxis]
  direction = solve(updates, n)[2]
  np.testing.assert_allclose(solve(updates * scale, n)[2], direction, atol=1e-6)


@settings
def test_opposite_updates_cancel(normalize):
  updates = np.array([[3.0, 4.0], [-6.0, -8.0]])
  share, _, direction, _ = solve(updates, epsilon=1, normalize=normalize)
  np.testing.assert_allclose(direction, [0, 0], atol=1e-6)
  wanted = [0.5, 0.5] if normalize else [2 / 3, 1 / 3]
  np.testing.assert_allclose(share, wanted, atol=1e-6)


def test_a_zero_update_may_take_no_more_than_the_box_allows():
  updates = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
  share, _, direction, reported = solve(updates, epsilon=0.1)
  # A zero update has the coefficient 0 whatever its lambda is; the lambda shows
  # in the measurements and in the lambdas of the other clients.
  np.testing.assert_allclose(share[[0, 2]], (1 - (1 / 3 + 0.1)) / 2, atol=1e-6)
  assert reported["lambda_max"] == pytest.approx(1 / 3 + 0.1, abs=1e-6)
  np.testing.assert_allclose(direction, share[[0, 2]], atol=1e-9)
