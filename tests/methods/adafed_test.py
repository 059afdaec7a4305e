"""Tests of AdaFed's rule against the paper's theorem and procedure."""

import itertools

import numpy as np
import pytest

from tests import hulls, reference
from tests.methods import cohorts, in_graph
from tff_fair.methods import adafed

UPDATES, LOSS, _ = cohorts.random(4, d=10)


def apply(updates, loss, gamma=1.0, hull=False):
  rule = adafed.AdaFedRule(gamma=gamma, hull=hull)
  return in_graph.apply(rule, cohorts.make(updates, loss))


def coefficients(*arguments, **settings):
  return apply(*arguments, **settings).coefficients


def convex_hull_used(*arguments, **settings):
  return apply(*arguments, **settings).measurements["convex_hull_used"]


# With 0.7, rounding gamma to float32 would show.
@pytest.mark.parametrize("gamma", [0, 0.25, 0.7, 1.0, 3.0])
def test_slopes_are_proportional_to_powers_of_the_losses(gamma):
  # Theorem 4.1.
  direction = coefficients(UPDATES, LOSS, gamma) @ UPDATES
  np.testing.assert_allclose(
    UPDATES @ direction,
    LOSS**gamma * (direction @ direction),
    rtol=1e-9,
  )
  assert not convex_hull_used(UPDATES, LOSS, gamma)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_is_the_orthogonalization_of_the_paper_in_any_order(order):
  # Eqs. 5, 6 and 14.
  clients = cohorts.clients(cohorts.make(UPDATES, LOSS), UPDATES)
  np.testing.assert_allclose(
    coefficients(UPDATES, LOSS, 0.75) @ UPDATES,
    reference.adafed([clients[k] for k in order], gamma=0.75),
    rtol=1e-9,
  )


def test_no_point_of_the_affine_hull_is_shorter():
  points = UPDATES / LOSS[:, np.newaxis]
  length = np.linalg.norm(coefficients(UPDATES, LOSS) @ UPDATES)
  rng = np.random.default_rng(0)
  for shares in rng.normal(size=(200, 4)):
    other = shares / shares.sum() @ points
    assert np.linalg.norm(other) >= length * (1 - 1e-12)


@pytest.mark.parametrize("gamma", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e6])
def test_the_direction_goes_as_the_losses_to_minus_gamma(gamma, scale):
  np.testing.assert_allclose(
    coefficients(UPDATES, LOSS * scale, gamma),
    coefficients(UPDATES, LOSS, gamma) * scale**-gamma,
    rtol=1e-6,
  )


@pytest.mark.parametrize("scale", [1e-40, 1e-8, 1e30])
def test_the_direction_goes_with_the_updates(scale):
  np.testing.assert_allclose(
    coefficients(UPDATES * scale, LOSS), coefficients(UPDATES, LOSS), rtol=1e-9
  )


CONTRADICTORY = {
  "duplicates with other losses": (UPDATES[[0, 1, 0]], [1.0, 0.5, 3.0]),
  "opposite updates": ([UPDATES[0], -UPDATES[0], UPDATES[1]], [1.0, 0.5, 3.0]),
  "a zero update": (UPDATES * [[1], [0], [1], [1]], LOSS),
  "more clients than weights": (UPDATES[:, :2], LOSS),
  "all of one sign on a line": ([[1.0], [2.0], [5.0]], [1.0, 1.0, 1.0]),
  "one loss zero": (UPDATES[[0, 0, 1, 1]], [1.0, 0.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("case", CONTRADICTORY)
def test_contradictory_slopes_fall_back_to_the_convex_hull(case, gamma):
  updates, loss = map(np.asarray, CONTRADICTORY[case])
  assert convex_hull_used(updates, loss, gamma)
  c = coefficients(updates, loss, gamma)
  counted = loss > 0
  points = updates[counted] / loss[counted, np.newaxis] ** gamma
  wanted = hulls.least_norm(points) @ points
  size = np.linalg.norm(points, axis=1).max()
  np.testing.assert_allclose(c @ updates, wanted, atol=1e-6 * size)
  # c * loss**gamma are weights of a convex combination of the points.
  assert c.min() >= 0
  assert c @ loss**gamma == pytest.approx(1, abs=1e-9)
  np.testing.assert_array_equal(c[~counted], 0)


@pytest.mark.parametrize("seed", range(20))
def test_never_ascends(seed):
  # Half of the cohorts have more clients than weights; all have duplicates.
  m, d = (5, 3) if seed % 2 else (6, 20)
  updates, loss, _ = cohorts.random(m, d, seed)
  updates[-1] = updates[seed % (m - 1)]
  direction = coefficients(updates, loss) @ updates
  norms = np.linalg.norm(updates, axis=1)
  slack = 1e-6 * norms * np.max(norms / loss)
  assert np.all(updates @ direction >= -slack)


def test_nearly_dependent_updates_are_steady():
  # One direction has all requested slopes, so the solution does not move as the
  # updates become dependent.
  rng = np.random.default_rng(3)
  direction = rng.normal(size=10)
  for distance in (1e-2, 1e-4, 1e-6, 1e-9):
    updates = UPDATES[[0, 0, 1]] + distance * rng.normal(size=(3, 10))
    updates *= np.sign(updates @ direction)[:, np.newaxis]
    c = coefficients(updates, updates @ direction)
    assert c @ (updates @ direction) == pytest.approx(1, abs=1e-4)
    assert np.all(updates @ (c @ updates) > 0)


@pytest.mark.parametrize("gamma", [1.0, 10])
def test_no_loss_at_all_is_no_step(gamma):
  np.testing.assert_array_equal(coefficients(UPDATES, np.zeros(4), gamma), 0)


def test_gamma_of_zero_ignores_losses_of_zero():
  np.testing.assert_allclose(
    coefficients(UPDATES, [0.0, 1.0, 1e6, 0.0], 0),
    coefficients(UPDATES, LOSS, 0),
    rtol=1e-12,
  )


def test_a_loss_of_zero_asks_for_a_slope_of_zero():
  loss = LOSS * [1, 0, 1, 1]
  direction = coefficients(UPDATES, loss) @ UPDATES
  assert not convex_hull_used(UPDATES, loss)
  np.testing.assert_allclose(
    UPDATES @ direction, loss * (direction @ direction), rtol=1e-9, atol=1e-12
  )


def more_or_less_alike(seed):
  """Returns updates and losses.

  For odd seeds, the updates are so alike that some c_k are negative.
  """
  rng = np.random.default_rng(seed)
  updates = rng.normal(size=(5, 30)) * rng.lognormal(0, 0.2, size=(5, 1))
  return updates + seed % 2, rng.lognormal(size=5)


@pytest.mark.parametrize("gamma", [0, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(10))
def test_the_hull_takes_the_place_of_negative_coefficients(seed, gamma):
  updates, loss = more_or_less_alike(seed)
  affine = coefficients(updates, loss, gamma)
  c = coefficients(updates, loss, gamma, hull=True)
  is_negative = affine.min() < 0
  assert convex_hull_used(updates, loss, gamma, hull=True) == is_negative
  if not is_negative:
    np.testing.assert_array_equal(c, affine)
    return
  points = updates / loss[:, np.newaxis] ** gamma
  np.testing.assert_allclose(
    c @ updates, hulls.least_norm(points) @ points, rtol=1e-6, atol=1e-9
  )
  assert c.min() >= 0
  # Since the norm is minimal, relative slopes are at least its square.
  direction = c @ updates
  assert np.all(points @ direction >= (direction @ direction) * (1 - 1e-9))


def test_some_cohorts_have_a_negative_coefficient_and_some_have_none():
  negative = {coefficients(*more_or_less_alike(s)).min() < 0 for s in range(10)}
  assert negative == {True, False}


def test_the_hull_leaves_out_clients_without_a_loss():
  loss = [1.0, 0.0, 2.0]
  updates = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
  c = coefficients(updates, loss, hull=True)
  np.testing.assert_allclose(c, [0.2, 0.0, 0.4], atol=1e-9)
