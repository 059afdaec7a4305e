"""Tests of AdaFedAdam's rule against Algorithm 2 on the updates."""

import math

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import adafedadam

RATE = 0.05


def cohort_of(
  updates, loss, initial_loss, gradient_norm, n=None, learning_rate=RATE
):
  return cohorts.make(
    updates,
    loss,
    n,
    learning_rate=learning_rate,
    initial_loss=initial_loss,
    gradient_norm=gradient_norm,
  )


def random_cohort(m, d=6, seed=0):
  updates, loss, n = cohorts.random(m, d, seed)
  rng = np.random.default_rng([m, seed])
  return updates, loss, rng.lognormal(size=m), rng.lognormal(size=m), n


def apply(cohort, alpha=1.0):
  return in_graph.apply(adafedadam.AdaFedAdamRule(alpha=alpha), cohort)


def expected(updates, loss, initial_loss, gradient_norm, n, alpha):
  """g and C, client by client."""
  total, g, certainty = 0.0, np.zeros(updates.shape[1]), 0.0
  for k, update in enumerate(updates):
    relative = loss[k] / initial_loss[k] if initial_loss[k] else 1.0
    weight = n[k] * relative**alpha
    length = math.sqrt(update @ update)
    if length and gradient_norm[k]:
      own_rate = length / gradient_norm[k]
      g += weight * update / own_rate
      certainty += weight * (math.log(own_rate / RATE) + 1)
    else:
      certainty += weight
    total += weight
  return g / total, certainty / total


@pytest.mark.parametrize("alpha", [0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_is_the_pseudo_gradient_of_the_paper(m, alpha):
  updates, loss, initial, norms, n = random_cohort(m)
  output = apply(cohort_of(updates, loss, initial, norms, n), alpha)
  g, certainty = expected(updates, loss, initial, norms, n, alpha)
  np.testing.assert_allclose(output.coefficients @ updates, g, rtol=1e-10)
  assert output.measurements["certainty"] == pytest.approx(certainty)
  assert output.for_finalizer["certainty"] == pytest.approx(
    max(certainty, 1e-3)
  )


def test_one_step_has_a_certainty_of_one():
  # Delta_k = eta grad F_k: then U_k is the gradient.
  gradients = np.random.default_rng(0).normal(size=(5, 4))
  norms = np.linalg.norm(gradients, axis=1)
  updates = RATE * gradients
  _, loss, initial, _, n = random_cohort(5)
  output = apply(cohort_of(updates, loss, initial, norms, n), alpha=0)
  np.testing.assert_allclose(
    output.coefficients @ updates, n / n.sum() @ gradients, rtol=1e-12
  )
  assert output.measurements["certainty"] == pytest.approx(1, abs=1e-12)
  assert output.measurements["certainty_floored"] == 0


UPDATES, LOSS, INITIAL, NORMS, N = random_cohort(4)
# Updates, losses, initial losses and norms of gradients.
HARD = {
  "one client": (UPDATES[:1], LOSS[:1], INITIAL[:1], NORMS[:1]),
  "identical clients": (UPDATES[[0, 0]], [0.7] * 2, [1.0] * 2, [2.0] * 2),
  "all updates zero": (0 * UPDATES, LOSS, INITIAL, NORMS),
  "one update zero": (UPDATES * [[1], [0], [1], [1]], LOSS, INITIAL, NORMS),
  "one gradient zero": (UPDATES, LOSS, INITIAL, [1.0, 0.0, 2.0, 3.0]),
  "no gradient": (UPDATES, LOSS, INITIAL, np.zeros(4)),
  "one without initial loss": (UPDATES, LOSS, [0.0, 1.0, 2.0, 3.0], NORMS),
  "no initial loss": (UPDATES, LOSS, np.zeros(4), NORMS),
  "one without loss": (UPDATES, [0.0, 1.0, 2.0, 3.0], INITIAL, NORMS),
  "no loss now nor then": (UPDATES, np.zeros(4), np.zeros(4), NORMS),
  "tiny losses": (UPDATES, LOSS * 1e-30, INITIAL, NORMS),
  "huge losses": (UPDATES, LOSS * 1e6, INITIAL, NORMS),
  "tiny initial losses": (UPDATES, LOSS, INITIAL * 1e-30, NORMS),
  "tiny and huge losses": (UPDATES, [1e-30, 1.0, 1e6, 0.3], INITIAL, NORMS),
  "one huge update": (UPDATES * [[1e30], [1], [1], [1]], LOSS, INITIAL, NORMS),
  "one tiny update": (UPDATES * [[1e-30], [1], [1], [1]], LOSS, INITIAL, NORMS),
  "more clients than weights": (UPDATES[:, :2], LOSS, INITIAL, NORMS),
}


@pytest.mark.parametrize("alpha", [0, 0.01, 1.0])
@pytest.mark.parametrize("case", HARD)
def test_hard_cohorts(case, alpha):
  updates, loss, initial, norms = map(np.asarray, HARD[case])
  n = N[: len(updates)]
  output = apply(cohort_of(updates, loss, initial, norms, n), alpha)
  g, certainty = expected(updates, loss, initial, norms, n, alpha)
  np.testing.assert_allclose(
    output.coefficients @ updates, g, rtol=1e-9, atol=1e-12 * max(norms)
  )
  assert output.measurements["certainty"] == pytest.approx(certainty, rel=1e-9)


@pytest.mark.parametrize("alpha", [50.0, 1000.0])
def test_a_large_alpha_follows_who_improved_least(alpha):
  loss = INITIAL * [1e-30, 0.5, 1e6, 1.0]
  output = apply(cohort_of(UPDATES, loss, INITIAL, NORMS, N), alpha)
  length = np.linalg.norm(UPDATES[2])
  np.testing.assert_allclose(
    output.coefficients, [0, 0, NORMS[2] / length, 0], atol=1e-12
  )
  assert output.measurements["weight_max"] == pytest.approx(1)


def test_a_learning_rate_of_zero_gives_no_nan():
  # A schedule that has come down to zero: no client moves.
  cohort = cohort_of(0 * UPDATES, LOSS, INITIAL, NORMS, learning_rate=0.0)
  output = apply(cohort)
  np.testing.assert_array_equal(output.coefficients, np.zeros(4))
  assert output.for_finalizer["certainty"] == pytest.approx(1)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 5.0])
def test_without_any_loss_left_there_is_no_direction(alpha):
  output = apply(cohort_of(UPDATES, np.zeros(4), INITIAL, NORMS, N), alpha)
  np.testing.assert_array_equal(output.coefficients, np.zeros(4))
  assert output.for_finalizer["certainty"] == pytest.approx(1)


def test_negative_losses_count_as_zero():
  loss = np.array([-1.0, 1.0, 2.0, -1e6])
  here = apply(cohort_of(UPDATES, loss, INITIAL, NORMS))
  there = apply(cohort_of(UPDATES, np.maximum(loss, 0), INITIAL, NORMS))
  np.testing.assert_array_equal(here.coefficients, there.coefficients)


@pytest.mark.parametrize(("times", "floored"), [(1e-6, 1), (1.0, 0)])
def test_certainty_is_held_above_its_floor_and_says_so(times, floored):
  cohort = cohort_of(times * UPDATES, LOSS, INITIAL, np.full(4, 0.1))
  output = apply(cohort)
  certainty = output.measurements["certainty"]
  assert output.measurements["certainty_floored"] == floored
  assert (certainty < 1e-3) == bool(floored)
  assert output.for_finalizer["certainty"] == max(certainty, 1e-3)


def test_weights_are_reported():
  cohort = cohort_of(UPDATES, LOSS, INITIAL, NORMS, N)
  reported = apply(cohort).measurements
  w = N * LOSS / INITIAL
  assert reported["weight_min"] == pytest.approx(min(w) / w.sum())
  assert reported["weight_max"] == pytest.approx(max(w) / w.sum())
