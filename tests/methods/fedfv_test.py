"""Tests of FedFV's rule against the paper's algorithms on vectors.

The rule uses only the Gram matrix; the algorithms here do not use it, and
compute in more than double precision.
"""

import fractions
import itertools
import math

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fedfv

LOSS_ORDERS = ("loss", "reverse")
ORDERS = (*LOSS_ORDERS, "random")


def keeps(loss, alpha):
  """Returns which clients keep their updates, counted in exact fractions."""
  last = len(loss) - 1
  share = 1 - fractions.Fraction(repr(alpha))
  first = len(loss) if alpha == 0 else math.ceil(last * share)
  return set(np.argsort(loss, kind="stable")[first:].tolist())


def expected(updates, loss, alpha, order):
  """Returns d by Algorithms 2 and 1 (line 10), with targets in `order`."""
  updates = list(np.asarray(updates, np.longdouble))
  kept, projected = keeps(loss, alpha), []
  for k, update in enumerate(updates):
    g = update
    for target in [] if k in kept else [updates[j] for j in order if j != k]:
      if g @ target < 0:
        g = g - (g @ target) / (target @ target) * target
    projected.append(g)
  g, mean = (sum(rows) / len(rows) for rows in (projected, updates))
  norm = np.sqrt(g @ g)
  if norm <= 1e-14 * max(np.sqrt(u @ u) for u in updates):
    return np.zeros(len(g))  # Only rounding is left.
  return (g / norm * np.sqrt(mean @ mean)).astype(np.float64)


def assert_same(actual, wanted, updates):
  tolerance = 1e-9 * np.max(np.linalg.norm(updates, axis=1))
  np.testing.assert_allclose(actual, wanted, rtol=0, atol=tolerance)


def direction(updates, loss, **settings):
  rule = fedfv.FedFvRule(**settings)
  cohort = cohorts.make(updates, loss)
  return in_graph.direction(rule, cohort, updates)


@pytest.mark.parametrize("order", LOSS_ORDERS)
@pytest.mark.parametrize("alpha", [0, 0.1, 0.5])
@pytest.mark.parametrize("d", [1, 3, 30])
def test_projections_are_those_of_the_paper(d, alpha, order):
  for m in (1, 2, 5, 11, 30):
    for seed in range(2):
      updates, loss, _ = cohorts.random(m, d, seed=[m, d, seed])
      ascending = np.argsort(loss)
      targets = ascending if order == "loss" else ascending[::-1]
      wanted = expected(updates, loss, alpha, targets)
      actual = direction(updates, loss, alpha=alpha, order=order)
      assert_same(actual, wanted, updates)


@pytest.mark.parametrize("m", [2, 6, 11, 21])
def test_share_of_clients_that_keep_their_updates(m):
  # (m - 1)(1 - alpha) is often an integer, but not when computed in floats.
  updates, loss, _ = cohorts.random(m, d=40, seed=m)
  ascending = np.argsort(loss)
  seen = set()
  for alpha in (0, 1e-6, 0.01, 0.1, 0.35, 0.7, 1.0):
    wanted = expected(updates, loss, alpha, ascending)
    assert_same(direction(updates, loss, alpha=alpha), wanted, updates)
    seen.add(len(keeps(loss, alpha)))
  assert {0, 1, m} <= seen


@pytest.mark.parametrize(("seed", "round_num"), [(0, 0), (0, 5), (7, 0)])
def test_random_order_depends_on_seed_and_round_alone(seed, round_num):
  rule = fedfv.FedFvRule(alpha=0, order="random", seed=seed)
  rng = np.random.default_rng(1)
  orders = set(itertools.permutations(range(4)))
  for case in range(6):
    updates, loss, n = cohorts.random(4, d=6, seed=case)
    # All pairs conflict: different orders give different directions.
    updates -= 1.4 * updates.mean(axis=0)
    cohort = cohorts.make(
      updates, loss, n, client_id=np.sort(rng.integers(0, 2**62, size=4))
    )
    d = in_graph.direction(rule, cohort, updates, np.int64(round_num))
    orders = {
      order
      for order in orders
      if np.allclose(d, expected(updates, loss, 0, order), rtol=0, atol=1e-9)
    }
  assert len(orders) == 1


def test_random_orders_differ_between_rounds_and_seeds():
  updates, loss, _ = cohorts.random(12, d=30)
  cohort = cohorts.make(updates - 1.1 * updates.mean(axis=0), loss)
  seen = set()
  for seed in range(4):
    rule = fedfv.FedFvRule(alpha=0, order="random", seed=seed)
    for round_num in range(4):
      first = in_graph.apply(rule, cohort, np.int64(round_num)).coefficients
      again = in_graph.apply(rule, cohort, np.int64(round_num)).coefficients
      np.testing.assert_array_equal(first, again)
      seen.add(tuple(first))
  assert len(seen) == 16


@pytest.mark.parametrize("seed", [2**63, 10**40])
def test_a_seed_counts_by_its_lowest_64_bits(seed):
  updates, loss, _ = cohorts.random(12, d=30)
  cohort = cohorts.make(updates - 1.1 * updates.mean(axis=0), loss)

  def coefficients(seed):
    rule = fedfv.FedFvRule(alpha=0, order="random", seed=seed)
    return tuple(in_graph.apply(rule, cohort).coefficients)

  assert coefficients(seed) == coefficients(seed % 2**64)
  assert coefficients(seed) != coefficients(seed + 1)
  # The highest bit counts: a difference of 2^63 changes the coefficients.
  assert coefficients(seed) != coefficients((seed + 2**63) % 2**64)


def test_ties_are_broken_by_place():
  # Clients come in ascending order of id.
  updates, _, _ = cohorts.random(5, d=9)
  for loss in (np.ones(5), np.array([1.0, 0.5, 1.0, 0.5, 1.0])):
    wanted = expected(updates, loss, 0.5, np.argsort(loss, kind="stable"))
    assert_same(direction(updates, loss, alpha=0.5), wanted, updates)


V = np.array([3.0, -1.0, 2.0])
W = np.array([1.0, 1.0, -1.0])  # Orthogonal to V.
NOTHING_LEFT = {
  "all zero": np.zeros([3, 3]),
  "one zero update": np.zeros([1, 3]),
  "opposite": [V, -V],
  "opposite of other length": [V, -2 * V],
  "opposite at scale": [1e30 * V, -1e-3 * V],
  "thirds": [V / 3, V / 3, -2 * V / 3],
  "on one line": V * np.array([[1], [-7], [0.1], [1e-4], [-1e5]]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", NOTHING_LEFT)
def test_nothing_left_gives_zero(case, order):
  updates = np.asarray(NOTHING_LEFT[case])
  loss = np.arange(len(updates)) + 1.0
  rule = fedfv.FedFvRule(alpha=0, order=order)
  output = in_graph.apply(rule, cohorts.make(updates, loss))
  np.testing.assert_array_equal(output.coefficients, np.zeros(len(updates)))
  assert output.measurements["norm_before_rescaling"] == 0


def test_a_mean_of_zero_gives_zero_whatever_is_kept():
  for alpha in (0.1, 0.5, 1.0):
    np.testing.assert_array_equal(
      direction([V, -V], [1.0, 2.0], alpha=alpha), np.zeros(3)
    )


def test_mean_that_cancels_but_for_rounding_gives_zero():
  # The updates' sum is zero; the Gram matrix's sum, with rounding, is not.
  rng = np.random.default_rng(0)
  for _ in range(20):
    updates = rng.normal(size=(5, 7)).astype(np.float32).astype(np.float64)
    updates = np.concatenate([updates, -updates.sum(axis=0, keepdims=True)])
    assert not updates.sum(axis=0).any()
    d = direction(updates, rng.uniform(size=6), alpha=0.5)
    np.testing.assert_allclose(d, np.zeros(7), atol=1e-12)


def test_a_zero_update_is_no_target_but_counts_in_the_mean():
  updates = np.array([V, np.zeros(3), W - V])
  wanted = expected(updates[[0, 2]], [1.0, 3.0], 0, [0, 1])
  d = direction(updates, [1.0, 2.0, 3.0], alpha=0)
  np.testing.assert_allclose(d, wanted * 2 / 3, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30, 1e38])
def test_the_scale_of_all_updates_does_not_matter(scale):
  updates, loss, _ = cohorts.random(6, d=4)
  d = direction(updates * scale, loss)
  np.testing.assert_allclose(d / scale, direction(updates, loss), rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alpha", [0, 0.1])
def test_one_huge_update_never_makes_the_direction_longer(order, alpha):
  for seed in range(10):
    updates, loss, _ = cohorts.random(5, d=6, seed=seed)
    updates[seed % 5] *= 1e30
    d = direction(updates, loss, alpha=alpha, order=order)
    assert np.all(np.isfinite(d))
    mean = np.linalg.norm(updates.mean(axis=0))
    assert np.linalg.norm(d) <= mean * (1 + 1e-6)


def test_one_huge_update_is_projected():
  # The huge update conflicts with all others, which are mutually orthogonal.
  updates = np.concatenate([np.eye(3), [[-3e30, -4e30, 0]]])
  updates[3, 2] = 12e30
  d = direction(updates, [1.0, 2.0, 3.0, 4.0], alpha=0)
  np.testing.assert_allclose(d / 1e30, [0, 0, 13 / 4], atol=1e-6)


def test_nearly_opposite_updates():
  # The projections leave a thousandth, or less, of the updates' length.
  for distance in (1e-2, 1e-3, 1e-4, 1e-5):
    updates = np.array([V, -V + distance * W, distance * W])
    wanted = expected(updates, [1.0, 2.0, 3.0], 0, [0, 1, 2])
    d = direction(updates, [1.0, 2.0, 3.0], alpha=0)
    error = np.linalg.norm(d - wanted) / np.linalg.norm(wanted)
    assert error < 1e-5


def test_conflicts_are_counted():
  updates = [V, -V, W, V + W, -W]
  output = in_graph.apply(fedfv.FedFvRule(), cohorts.make(updates))
  matrix = np.asarray(updates)
  pairs = itertools.combinations(matrix, 2)
  assert output.measurements["conflicts"] == sum(a @ b < 0 for a, b in pairs)
  assert output.measurements["num_remembered"] == 0
