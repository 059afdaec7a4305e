"""Tests of FedNova's rule: what unequal numbers of steps distort."""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fednova

RULE = fednova.FedNovaRule()


def cohort_of(updates, steps, num_examples=None):
  cohort = cohorts.make(updates, num_examples=num_examples)
  return cohort._replace(effective_steps=np.asarray(steps, np.float64))


def momentum_steps(steps, rho):
  """||a||_1 of the paper with local momentum rho, in closed form."""
  return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)


@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_is_the_normalized_average(m):
  updates, _, n = cohorts.random(m, d=5, seed=m)
  steps = np.random.default_rng(m).integers(1, 200, size=m)
  output = in_graph.apply(RULE, cohort_of(updates, steps, n))
  mean_gradient, mean_steps = np.zeros(5), 0.0
  for n_k, update, tau in zip(n, updates, steps, strict=True):
    mean_gradient += n_k / n.sum() * update / tau
    mean_steps += n_k / n.sum() * tau
  np.testing.assert_allclose(
    output.coefficients @ updates, mean_steps * mean_gradient, rtol=1e-10
  )
  assert output.measurements["effective_steps_mean"] == pytest.approx(
    mean_steps
  )


def test_momentum_counts_as_longer_steps():
  updates, _, n = cohorts.random(5, d=3)
  taus = [1, 2, 5, 40, 300]
  steps = [momentum_steps(tau, 0.9) for tau in taus]
  # The velocity of each step, added up.
  for tau, norm in zip(taus, steps, strict=True):
    velocities = [sum(0.9**j for j in range(i + 1)) for i in range(tau)]
    assert norm == pytest.approx(sum(velocities))
  c = in_graph.apply(RULE, cohort_of(updates, steps, n)).coefficients
  p = n / n.sum()
  np.testing.assert_allclose(c, p / steps * (p @ steps), rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 13, 0.5, 1e9])
def test_equal_steps_are_fedavg(steps):
  updates, _, n = cohorts.random(6, d=3)
  c = in_graph.apply(RULE, cohort_of(updates, np.full(6, steps), n))
  np.testing.assert_allclose(c.coefficients, n / n.sum(), rtol=1e-12)


def test_the_unit_of_the_steps_does_not_matter():
  updates, _, n = cohorts.random(6, d=3)
  steps = np.arange(1, 7)
  c = in_graph.apply(RULE, cohort_of(updates, steps, n)).coefficients
  for unit in (1e-30, 1e30):
    other = in_graph.apply(RULE, cohort_of(updates, steps * unit, n))
    np.testing.assert_allclose(other.coefficients, c, rtol=1e-12)


def test_clients_with_the_same_gradient_pull_equally():
  # However many steps they took along it.
  gradient, steps = np.array([1.0, -2.0]), np.array([1, 10, 1000])
  updates = steps[:, np.newaxis] * gradient
  d = in_graph.direction(RULE, cohort_of(updates, steps), updates)
  np.testing.assert_allclose(d, steps.mean() * gradient, rtol=1e-12)


@pytest.mark.parametrize("steps", [[0, 0, 0], [0, 4, 2], [0, 1e30, 1e-30]])
def test_clients_without_steps_have_not_moved(steps):
  updates = np.sign(steps)[:, np.newaxis] * np.ones([3, 2])
  c = in_graph.apply(RULE, cohort_of(updates, steps)).coefficients
  assert np.all(np.isfinite(c))
  assert c[0] == 0


@pytest.mark.parametrize("scale", [0.0, 1e30])
def test_updates_do_not_matter(scale):
  updates, _, n = cohorts.random(3, d=2)
  c = in_graph.apply(RULE, cohort_of(updates, [1, 2, 3], n)).coefficients
  other = in_graph.apply(RULE, cohort_of(updates * scale, [1, 2, 3], n))
  np.testing.assert_array_equal(other.coefficients, c)


def test_streaming_weights_are_proportional_to_the_coefficients():
  updates, _, n = cohorts.random(5, d=3)
  cohort = cohort_of(updates, [3, 0, 1, 7, 1e9], n)
  weights = np.exp(RULE.log_weight(cohort._replace(weight=n.astype(float))))
  c = in_graph.apply(RULE, cohort).coefficients
  np.testing.assert_allclose(weights / weights.sum(), c / c.sum(), rtol=1e-9)
